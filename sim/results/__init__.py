"""What a run leaves: records, metrics, files to take home."""
