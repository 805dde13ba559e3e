"""Data sets: readers of public files."""

from mvrc.datasets.french import Returns as Returns
from mvrc.datasets.french import read_french as read_french
