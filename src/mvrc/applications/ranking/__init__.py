"""Ranking: the positives first."""
