"""GPUs, models, links, and how many KV blocks fit."""
