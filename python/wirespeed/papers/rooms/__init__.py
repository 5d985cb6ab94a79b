"""One module a paper, each with its `PAPER`; what they hold is described in `wirespeed.papers`."""
