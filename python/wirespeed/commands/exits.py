"""Exit codes of the command. 0 is fine."""

from __future__ import annotations

from typing import Final

from wirespeed.interrupt import EXIT_STOPPED

__all__ = [
    "EXIT_BUG",
    "EXIT_CONDITION",
    "EXIT_INCOMPLETE",
    "EXIT_INPUT",
    "EXIT_NO_GPU",
    "EXIT_STOPPED",
    "EXIT_TARGET",
    "EXIT_UNDECIDED",
    "EXIT_UNMET",
    "EXIT_WRONG",
]

EXIT_CONDITION: Final = 1
"""A `--fail-if` condition fails, or cannot be judged."""
EXIT_INCOMPLETE: Final = 1
"""Points of a sweep failed as they ran."""
EXIT_WRONG: Final = 1
"""A router gave a wrong verdict."""
EXIT_UNMET: Final = 1
"""No machine that was tried meets the target of a sizing."""
EXIT_INPUT: Final = 2
EXIT_TARGET: Final = 3
"""A program that was to be measured is missing, has died or hangs."""
EXIT_UNDECIDED: Final = 4
"""No `--fail-if` condition fails, but the interval of one is too wide to tell."""
EXIT_BUG: Final = 70
EXIT_NO_GPU: Final = 77
