"""`wirespeed papers`."""

from wirespeed.commands.fields import group
from wirespeed.commands.papers import cite, listing, run

app = group("papers", "Run published studies again: what they claim, and what comes out here.", [listing, run, cite])
