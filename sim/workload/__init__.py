"""Requests: synthetic, or read from trace files."""
