"""Stochastic neighbour embedding: high-dimensional points drawn in a few dimensions."""

from mvrc.applications.embedding.problems import neighbor_embedding as neighbor_embedding
