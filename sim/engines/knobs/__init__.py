"""The knobs of each engine: one validated model per file; registry.py joins them."""
