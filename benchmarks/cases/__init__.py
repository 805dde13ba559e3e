"""What is timed.

problems.py, applications.py   the problems
case.py        one point of the grid: sizes, dtype, form of the Jacobian, seeds, method
instances.py   the instances on which `Auto` is compared
"""
