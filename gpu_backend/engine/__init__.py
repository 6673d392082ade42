"""The loop that executes scheduled steps with PyTorch, and its queue of jobs."""
