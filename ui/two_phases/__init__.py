"""The page Two phases: prefill is bound by compute, decode by memory."""
