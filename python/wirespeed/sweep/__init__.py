"""Sweeps: a scenario over the values of its settings, on the cores of this machine or on a cluster."""

from wirespeed.sweep.plan import Ask, Plan
from wirespeed.sweep.study import Study, sweep

__all__ = ["Ask", "Plan", "Study", "sweep"]
