"""Step times of this machine, fitted to measured steps."""
