"""Batchscope: the frame that every page stands in, and the start-up."""

from ui import start_up
from ui.lessons import LESSONS
from ui.shell import frame

frame.configure()
start_up.once()
frame.run(LESSONS)
