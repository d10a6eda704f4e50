"""Stands in for meltingpot, which advantage-alignment imports and its suite never calls."""
