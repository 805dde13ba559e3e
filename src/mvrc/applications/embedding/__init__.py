"""Stochastic neighbour embedding: high-dimensional points drawn in a few dimensions."""

from mvrc.applications.embedding.coupled import (
    neighbor_embedding_coupled as neighbor_embedding_coupled,
)
from mvrc.applications.embedding.problems import neighbor_embedding as neighbor_embedding
