"""Prompts as token ids: synthetic ones, and text from a corpus."""
