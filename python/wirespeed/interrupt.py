"""Ctrl-C while the command is still being imported, which takes a second: it ends without a traceback.

`wirespeed/__init__.py` imports this before all else. A program that only imports wirespeed keeps its own handling.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Final

EXIT_STOPPED: Final = 130
# How Python names a program that is the console script, and one that `python -m` is about to look for.
_COMMAND: Final = ("wirespeed", "-m")


def _expect() -> None:
    """From here on Ctrl-C ends the process, where it is the command, and is not ignored."""
    is_command = os.path.basename((sys.argv or [""])[0]) in _COMMAND  # noqa: PTH119 (pathlib costs 5 ms)
    on_main_thread = threading.current_thread() is threading.main_thread()
    if is_command and on_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def hand_over() -> None:
    """From here on Ctrl-C is KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    os.write(2, b"wirespeed: stopped\n")
    os._exit(EXIT_STOPPED)


_expect()
