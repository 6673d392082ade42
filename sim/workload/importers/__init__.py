"""Trace files: how each format is recognised and read. Entry point: `sim.workload.trace_reader`."""
