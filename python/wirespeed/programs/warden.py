"""Starts a program and sees to it that it never outlives who asked for it.

Run as a script of its own: `warden.py CONTROL STATUS [--restore FILE=VALUE]... -- COMMAND...`. `CONTROL` is the end of
a pipe that nobody writes to: when its other end closes, for whatever reason, kill -9 included, the program and all its
descendants are killed, and the files are set to the values given. To `STATUS` goes one line when the program has
started (`pid 123`, or `error TEXT`) and one when it has ended (`exit CODE`, a signal as its negative number). Without a
command it only waits and restores. Descendants that leave the process group are found too, since the warden is the
subreaper of all of them (Linux, prctl(2)).

It imports the standard library only, and little of that: it starts in 15 ms.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
_SIGNAL_AGAIN_S = 0.01
_GIVES_UP_S = 5.0


def main() -> int:
    """Guards one program until it ends, or until nobody wants it any more."""
    control, status = int(sys.argv[1]), int(sys.argv[2])
    split = sys.argv.index("--")
    restores = [each.partition("=") for each in sys.argv[3:split] if each != "--restore"]
    command = sys.argv[split + 1 :]
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    try:
        if not command:
            _first_of(control)
            return 0
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        os.set_inheritable(control, False)
        os.set_inheritable(status, False)
        try:
            defaults = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE]
            pid = os.posix_spawnp(command[0], command, os.environ, setsid=True, setsigdef=defaults)
        except OSError as e:
            _say(status, f"error {e.strerror}")
            return 0
        try:
            _say(status, f"pid {pid}")
            _wait(control, status, pid)
        finally:
            _kill_all(pid)
        return 0
    finally:
        for path, _, value in restores:
            # Where the file is gone or may not be written there is nothing left to restore.
            with contextlib.suppress(OSError), open(path, "w") as file:  # noqa: PTH123 (pathlib costs 5 ms)
                file.write(value)


def _wait(control: int, status: int, pid: int) -> None:
    watched = os.pidfd_open(pid)
    if watched in _first_of(control, watched):
        _, code = os.waitpid(pid, 0)
        _say(status, f"exit {os.waitstatus_to_exitcode(code)}")


def _first_of(*ends: int) -> list[int]:
    """Waits until one can be read, or has been closed; `select` would take no numbers above 1023."""
    poll = select.poll()
    for end in ends:
        poll.register(end, select.POLLIN)
    return [end for end, _ in poll.poll()]


def _kill_all(group: int) -> None:
    """Kills the group and every descendant until there is none."""
    ends = time.monotonic() + _GIVES_UP_S
    while time.monotonic() < ends:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
        for child in _children():
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_SIGNAL_AGAIN_S)


def _children() -> list[int]:
    """Direct children: as their own children lose their parents, they become ours."""
    mine = str(os.getpid())
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 (pathlib costs 5 ms)
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/stat") as file:  # noqa: PTH123
                if file.read().rpartition(")")[2].split()[1] == mine:
                    found.append(int(name))
    return found


def _say(status: int, line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(status, line.encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
