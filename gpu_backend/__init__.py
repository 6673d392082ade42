"""The real engine, and measurements of servers, beside the simulation."""
