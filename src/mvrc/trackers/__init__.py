"""Estimates of ∇F in a training loop of one's own, on batches of one's own."""

from mvrc.trackers.tracker import Tracker as Tracker
from mvrc.trackers.tracker import tracker as tracker
