"""How long the rooms take on this host, written into the rooms.

    python -m wirespeed.papers.clock                  # every room
    python -m wirespeed.papers.clock 2010-tc-duarte   # one

runs the default readings of a paper on one thread and writes `papers/<id>/takes.toml`, which `wirespeed papers list`
reads. Build again afterwards: the extension module carries the file.
"""

from __future__ import annotations

import argparse
import datetime
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wirespeed import _wirespeed, files, papers
from wirespeed.errors import InputError
from wirespeed.papers.paper import Paper
from wirespeed.papers.takes import TAKES, Takes, written
from wirespeed.tune.real import processor

ROOT: Final = Path(__file__).resolve().parents[3]


def measure(paper: Paper) -> Takes:
    """Runs the default readings, and reads the clocks of this process and of its children."""
    before = _cpu_seconds()
    papers.run(paper, threads=1)
    return Takes(_cpu_seconds() - before, processor(), datetime.date.today(), _wirespeed.version())


def _cpu_seconds() -> float:
    clocks = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(clock.ru_utime + clock.ru_stime for clock in clocks)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m wirespeed.papers.clock", description=__doc__.partition("\n")[0])
    parser.add_argument("id", nargs="*", help="papers; all if none is named")
    given = parser.parse_args(arguments)
    try:
        for paper in [papers.find(id) for id in given.id] or papers.papers():
            takes = measure(paper)
            files.write(ROOT / "papers" / paper.id / TAKES, written(takes))
            sys.stdout.write(f"{paper.id}: {takes}\n")
            sys.stdout.flush()
    except InputError as e:
        sys.stderr.write(f"error: {e}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
