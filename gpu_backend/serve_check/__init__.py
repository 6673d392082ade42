"""A check of a running OpenAI-compatible server against its simulation."""
