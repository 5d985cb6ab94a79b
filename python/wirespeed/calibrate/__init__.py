"""Calibration: this machine is measured, written as a preset, and judged by what the preset was not fitted on."""

MARK = "Written by `wirespeed calibrate`"
"""Stands in every file that it writes."""
