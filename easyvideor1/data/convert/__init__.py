"""Data sets in the formats of other projects, made into rows of this one (docs/data.md)."""
