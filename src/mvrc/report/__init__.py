"""Figures, claims and the page, from saved runs only."""
