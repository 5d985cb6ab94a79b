"""Hugepages of 2 MiB: how many are free, and more of them for as long as they are wanted.

What was there before is set again at the end by a process of its own, so also after kill -9.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

BYTES: Final = 2 << 20
ROOT: Final = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
_WARDEN: Final = Path(__file__).with_name("warden.py")


def free(root: Path = ROOT) -> int:
    """Hugepages that nobody uses; 0 where the kernel has none."""
    return _number(root / "free_hugepages")


@contextlib.contextmanager
def at_least(size: int, root: Path = ROOT) -> Iterator[bool]:
    """Sees to it that `size` bytes of hugepages are free; gives whether they are.

    Where the kernel may be asked for more, it is, and has again what it had when the context is left.
    """
    wanted = -(-size // BYTES)
    count = root / "nr_hugepages"
    missing = wanted - free(root)
    if missing <= 0:
        yield True
        return
    before = _number(count)
    control, end = os.pipe()
    warden: subprocess.Popen[bytes] | None = None
    try:
        if os.access(count, os.W_OK):
            with Path(os.devnull).open("wb") as nothing:
                warden = subprocess.Popen(
                    [
                        sys.executable,
                        "-I",
                        "-S",
                        os.fspath(_WARDEN),
                        str(control),
                        "2",
                        "--restore",
                        f"{count}={before}",
                        "--",
                    ],
                    pass_fds=(control,),
                    stdin=subprocess.DEVNULL,
                    stderr=nothing,
                    start_new_session=True,
                )
            with contextlib.suppress(OSError):
                count.write_text(str(before + missing))
        yield free(root) >= wanted
    finally:
        os.close(control)
        os.close(end)
        if warden is not None:
            warden.wait()


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
