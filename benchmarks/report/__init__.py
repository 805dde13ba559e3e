"""What is made of the numbers.

report.py    results.json, and docs/performance.md from it; plots.py: its plots
guard.py     speeds against baseline.json
machine.py   where and with what a run was made
"""
