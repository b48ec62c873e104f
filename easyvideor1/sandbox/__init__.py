"""Untrusted programs, run locked down. What runs inside imports the standard library and this room only."""
