"""The page Six ways to batch: every engine on the same requests."""
