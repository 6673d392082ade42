"""How long one step takes."""
