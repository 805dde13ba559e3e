"""Logs: XLA's own, without those that are no errors; imported before JAX.

On some processors XLA prints a page of flags at ERROR for each program that it reads back from the
cache, though it runs as well as a new one. What is fatal is printed all the same, errors are raised
as exceptions, and a level that the user has set stays.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
