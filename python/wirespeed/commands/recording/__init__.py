"""`wirespeed recording`."""

from wirespeed.commands.fields import group
from wirespeed.commands.recording import include, show

app = group(
    "recording",
    "Simulate a program of your own: record what it does to memory, and look at what was recorded.",
    [show, include],
)
