"""A scenario file: read, validated, resolved to numbers."""
