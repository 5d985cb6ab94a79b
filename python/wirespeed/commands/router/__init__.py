"""`wirespeed router`."""

from wirespeed.commands.fields import group
from wirespeed.commands.router import bench, probe, run

app = group(
    "router", "Route real packets, on CPU threads or on a GPU, and measure how fast and how late.", [run, probe, bench]
)
