"""`wirespeed memory`."""

from wirespeed.commands.fields import group
from wirespeed.commands.memory import buffers, cache, convert, curve, dma, dram

app = group(
    "memory",
    "Run a trace of memory requests through caches, or through a DRAM, on their own, or a machine's memory under load.",
    [dram, cache, curve, dma, buffers, convert],
)
