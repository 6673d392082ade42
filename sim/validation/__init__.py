"""Validated models and the messages of what they refuse."""
