"""Estimates of ∇F in your own training loop, on your own batches."""

from mvrc.trackers.coupled import CoupledTracker as CoupledTracker
from mvrc.trackers.tracker import Tracker as Tracker
from mvrc.trackers.tracker import tracker as tracker
