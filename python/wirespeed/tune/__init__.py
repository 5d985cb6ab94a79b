"""Tuning: which settings are best together, and what each way to choose them comes to."""

from wirespeed.tune.knobs import Knob
from wirespeed.tune.target import Measurement, Settings, Simulated, Target
from wirespeed.tune.tuning import Tuning, tune

__all__ = ["Knob", "Measurement", "Settings", "Simulated", "Target", "Tuning", "tune"]
