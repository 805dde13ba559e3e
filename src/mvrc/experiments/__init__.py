"""The paper's experiments as data, and their runner."""
