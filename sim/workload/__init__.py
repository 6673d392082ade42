"""Requests: synthetic ones and those of trace files."""
