"""Stochastic neighbour embedding: points of many dimensions drawn in a few."""

from mvrc.applications.embedding.problems import neighbor_embedding as neighbor_embedding
