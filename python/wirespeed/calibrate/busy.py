"""What other programs take of this machine's CPUs: a measurement beside them takes longer, and says less."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Of a CPU: less is what any system does by itself.
QUIET: Final = 0.2
# CPU-minutes that a calibration takes, by docs/guide/calibrate.md.
CPU_MINUTES: Final = (3, 5)
_STAT: Final = Path("/proc/stat")
_SAMPLE_S: Final = 0.5
# Of a CPU that others fill a thread still gets its turn.
_LEAST_SHARE: Final = 0.25


@dataclass(frozen=True, slots=True)
class Others:
    """CPUs' worth of time that others take, of how many; what a hypervisor gives to other guests is theirs, too."""

    taken: float
    of: int


def others(stat: Path = _STAT, sample_s: float = _SAMPLE_S) -> Others | None:
    """Looks twice; None where the kernel does not tell."""
    before = _ticks(stat)
    time.sleep(sample_s)
    after = _ticks(stat)
    if before is None or after is None or after[1] <= before[1]:
        return None
    cpus = os.cpu_count() or 1
    return Others(cpus * (after[0] - before[0]) / (after[1] - before[1]), cpus)


def words(found: Others | None) -> str:
    """What a reader should know before a measurement; nothing on a quiet machine.

    >>> words(Others(1.5, 2))
    'other programs take 1.5 of 2 CPUs: expect 12 to 20 minutes, and numbers that are off by what they do'
    >>> words(Others(0.1, 2)), words(None)
    ('', '')
    """
    if found is None or found.taken < QUIET:
        return ""
    slower = 1 / max(1 - found.taken / found.of, _LEAST_SHARE)
    low, high = (round(minutes * slower) for minutes in CPU_MINUTES)
    return (
        f"other programs take {found.taken:.1f} of {found.of} CPUs: expect {low} to {high} minutes, and numbers that "
        "are off by what they do"
    )


def _ticks(stat: Path) -> tuple[int, int] | None:
    """Busy and all ticks since the start of the system; busy is all but idle and waiting for I/O."""
    try:
        fields = [int(each) for each in stat.read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return None
    return (sum(fields) - fields[3] - fields[4], sum(fields)) if len(fields) > 4 else None
