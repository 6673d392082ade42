"""The loop over one or more replicas: arrivals, steps, KV transfers."""
