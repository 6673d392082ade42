"""The pages in the order of the navigation. A new page is its file in pages/ and its line here."""

from ui.disaggregation.form import DISAGGREGATION
from ui.kv_memory.form import KV_MEMORY
from ui.real_engine.form import REAL_ENGINE
from ui.shell.lesson import Lesson
from ui.six_ways.form import SIX_WAYS
from ui.two_phases.form import TWO_PHASES

LESSONS = (
    Lesson("start", "Start here", is_first=True),
    Lesson("two_phases", "Two phases", "Learn", TWO_PHASES),
    Lesson("six_ways", "Six ways to batch", "Learn", SIX_WAYS),
    Lesson("token_budget", "Token budget", "Learn", shows_run=True),
    Lesson("kv_memory", "KV memory", "Learn", KV_MEMORY),
    Lesson("disaggregation", "Disaggregation", "Learn", DISAGGREGATION),
    Lesson("real_engine", "Real engine", "Use", REAL_ENGINE),
    Lesson("reference", "Reference", "Practise"),
)
FORMS = {lesson.file: lesson.form for lesson in LESSONS if lesson.form is not None}
