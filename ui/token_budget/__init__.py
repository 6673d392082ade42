"""The page Token budget: vLLM V1, step by step."""
