"""Tricks that depend on how JAX or XLA compiles; see README.md."""
