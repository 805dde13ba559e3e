"""Schemes: how the iterate moves, given v ≈ ∇F(query point); a file each."""

from mvrc.schemes.admm import AdmmScheme as AdmmScheme
from mvrc.schemes.averaging import AveragingScheme as AveragingScheme
from mvrc.schemes.base import Scheme as Scheme
from mvrc.schemes.fista import FistaScheme as FistaScheme
from mvrc.schemes.katyusha import KatyushaScheme as KatyushaScheme
from mvrc.schemes.momentum import MomentumScheme as MomentumScheme
from mvrc.schemes.online_adam import OnlineAdamScheme as OnlineAdamScheme
from mvrc.schemes.proximal import ProximalScheme as ProximalScheme
from mvrc.schemes.schedule_free import ScheduleFreeScheme as ScheduleFreeScheme
from mvrc.schemes.transformed import OptaxScheme as OptaxScheme
from mvrc.schemes.transformed import is_optimizer as is_optimizer
