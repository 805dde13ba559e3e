"""Tricks that lean on how JAX or XLA compiles; see README.md."""
