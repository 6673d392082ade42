"""The engines: one file of scheduling rules per engine, and the knobs of each."""
