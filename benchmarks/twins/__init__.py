"""The same algorithm by hand.

twin.py         NumPy, plain and tuned
numba_twin.py, torch_twin.py
wide_twin.py    the problem with a wide g, in plain NumPy
sides.py        which of them a problem has, and which are installed
"""
