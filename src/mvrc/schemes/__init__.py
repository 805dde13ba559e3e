"""Schemes: how the iterate moves, given v ≈ ∇F(query point); a file each."""

from mvrc.schemes.base import Scheme as Scheme
from mvrc.schemes.momentum import MomentumScheme as MomentumScheme
from mvrc.schemes.proximal import ProximalScheme as ProximalScheme
