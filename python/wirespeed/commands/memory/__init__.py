"""`wirespeed memory`."""

from wirespeed.commands.fields import group
from wirespeed.commands.memory import buffers, cache, convert, dram

app = group(
    "memory",
    "Run a trace of memory requests through caches, or through a DRAM, on their own.",
    [dram, cache, buffers, convert],
)
