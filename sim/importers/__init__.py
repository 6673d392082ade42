"""Trace files that people have: how each is recognised and read. `sim.traces` is the way in."""
