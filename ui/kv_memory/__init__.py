"""The page KV memory: blocks, preemption, swap, prefix caching."""
