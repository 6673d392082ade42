"""The results of a run: metrics, diagnosis, provenance, and exports."""
