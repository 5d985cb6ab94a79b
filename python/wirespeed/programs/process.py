"""A program under a warden: its output, the CPU time of its threads, its end.

CPU time is what the scheduler counts for each thread (`/proc/PID/task/TID/schedstat`, nanoseconds). On a machine that
others use too, packets per second of it vary by a few percent where packets per second of time vary by a fifth.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from wirespeed.errors import TargetError

_WARDEN: Final = Path(__file__).with_name("warden.py")
_LOOKS_EVERY_S: Final = 0.005
# What it had printed when it ended is read by then.
_SAYS_LAST_WITHIN_S: Final = 0.5
# So much of what it has printed is kept.
_KEPT_BYTES: Final = 1 << 20
_TELLING: Final = re.compile(r"error|fail|cannot|unable|invalid|no such|not ", re.IGNORECASE)


class Process:
    """A context manager: leaving it kills the program and everything that it has started."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None, cwd: str | None = None) -> None:
        """Starts it, with a terminal as its output so that it does not hold lines back, and a pipe as its input.

        Raises TargetError where it cannot be started.
        """
        self.command = list(command)
        self._output = bytearray()
        self._dropped = 0
        self._changed = threading.Condition()
        self._ended: int | None = None
        self.pid = 0
        control, self._control = os.pipe()
        self._status, status = os.pipe()
        master, slave = pty.openpty()
        with contextlib.suppress(OSError):  # lines as they are, without carriage returns
            _raw(slave)
        argv = [sys.executable, "-I", "-S", os.fspath(_WARDEN), str(control), str(status), "--", *command]
        self._warden = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=slave,
            stderr=slave,
            pass_fds=(control, status),
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
        )
        for fd in (control, status, slave):
            os.close(fd)
        self._master = master
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.pid = self._started()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def name(self) -> str:
        """The program's name."""
        return Path(self.command[0]).name

    @property
    def ended(self) -> int | None:
        """Its exit code once it has ended (a signal as its negative number), else None."""
        with self._changed:
            return self._ended

    @property
    def output(self) -> str:
        """What it has printed so far."""
        with self._changed:
            return self._output.decode(errors="replace")

    @property
    def printed(self) -> int:
        """How many bytes it has printed so far: where to look from in `expect`."""
        with self._changed:
            return self._dropped + len(self._output)

    def say(self, text: str) -> None:
        """Writes to its standard input."""
        assert self._warden.stdin is not None
        try:
            self._warden.stdin.write(text.encode())
            self._warden.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._death("when it was told something") from None

    def expect(
        self, pattern: str, timeout_s: float, since: int = 0, is_stopped: Callable[[], bool] | None = None
    ) -> re.Match[str]:
        """Waits until what it prints after byte `since` matches. Raises TargetError where it ends, or is late."""
        wanted = re.compile(pattern)
        ends = time.monotonic() + timeout_s
        while True:
            ended = self.ended is not None
            if (found := wanted.search(self._printed_since(since))) is not None:
                return found
            if ended:
                raise self._death("while it was waited for")
            if time.monotonic() >= ends:
                raise self.hung(f"has not printed what matches {pattern!r}", timeout_s)
            with self._changed:
                self._changed.wait(0.02)
            if is_stopped is not None and is_stopped():
                raise KeyboardInterrupt

    def _printed_since(self, since: int) -> str:
        with self._changed:
            return self._output[max(0, since - self._dropped) :].decode(errors="replace")

    def sleep(self, seconds: float, is_stopped: Callable[[], bool] | None = None) -> None:
        """Lets it work. Raises TargetError where it ends meanwhile."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            with self._changed:
                if self._ended is None:
                    self._changed.wait(min(left, 0.05))
            self.check()
            if is_stopped is not None and is_stopped():
                raise KeyboardInterrupt

    def check(self) -> None:
        """Raises TargetError where it has ended."""
        if self.ended is not None:
            raise self._death("while it was measured")

    def threads(self) -> dict[int, tuple[str, int]]:
        """Its threads: name, and nanoseconds of CPU time so far."""
        found = {}
        for task in Path(f"/proc/{self.pid}/task").glob("*"):
            with contextlib.suppress(OSError, ValueError, IndexError):  # a thread that has ended meanwhile
                used = int((task / "schedstat").read_text().split()[0])
                found[int(task.name)] = ((task / "comm").read_text().strip(), used)
        return found

    def cpu_ns(self, thread: int) -> int:
        """CPU time of one thread so far, in nanoseconds."""
        try:
            return int(Path(f"/proc/{self.pid}/task/{thread}/schedstat").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            self.check()
            raise TargetError(
                f"{self.name}: its polling thread {thread} is gone, so there is nothing to measure"
            ) from None

    def polling_thread(self, pattern: str | None = None, within_s: float = 0.2) -> int:
        """The thread whose name matches, or the one that uses the CPU most."""
        before = self.threads()
        if pattern is not None:
            named = [number for number, (name, _) in before.items() if re.search(pattern, name)]
            if len(named) == 1:
                return named[0]
            names = ", ".join(sorted({name for name, _ in before.values()}))
            if not named:
                raise TargetError(f"{self.name}: no thread is called {pattern!r}; there are {names}")
        self.sleep(within_s)
        after = self.threads()
        used = {
            number: after[number][1] - before.get(number, ("", 0))[1]
            for number in after
            if pattern is None or re.search(pattern, after[number][0])
        }
        if not used:
            self.check()
            raise TargetError(f"{self.name}: has no threads that can be seen in /proc/{self.pid}/task")
        return max(used, key=lambda number: used[number])

    def finish(self, timeout_s: float) -> None:
        """Closes its standard input, and gives it time to end by itself."""
        assert self._warden.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._warden.stdin.close()
        ends = time.monotonic() + timeout_s
        with self._changed:
            while self._ended is None and (left := ends - time.monotonic()) > 0:
                self._changed.wait(left)

    def kill(self) -> None:
        """Kills it with its children, if it has not ended, and waits until all are gone."""
        if self._control >= 0:
            os.close(self._control)
            self._control = -1
        assert self._warden.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._warden.stdin.close()
        try:
            self._warden.wait(10)
        except subprocess.TimeoutExpired:
            os.kill(self._warden.pid, signal.SIGKILL)
            self._warden.wait()
        if self._warden.returncode != 0 and self.pid > 0:
            # A warden that was killed has killed nobody: its program leads a group, which has its number.
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        self._watcher.join()
        self._reader.join(1)
        if self._master >= 0 and not self._reader.is_alive():
            os.close(self._master)
            self._master = -1

    def last_words(self) -> str:
        """The last line that it has printed which says why, else the last one."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        telling = [line for line in lines if _TELLING.search(line) and "exiting with code" not in line]
        return (telling or lines or ["it printed nothing"])[-1][:300]

    def hung(self, what: str, after_s: float) -> TargetError:
        """The error of a program that lives and does not do what it should."""
        return TargetError(
            f"{self.name}: {what} within {after_s:g} s, and was killed with its children (last line: "
            f"{self.last_words()}); run it by hand to see what it waits for"
        )

    def _death(self, when: str) -> TargetError:
        code = self._ended
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        return TargetError(f"{self.name}: {how} {when} (last line: {self.last_words()})")

    def _started(self) -> int:
        line = _line(self._status)
        if line.startswith("pid "):
            return int(line[4:])
        self._ended = 127
        os.close(self._status)
        why = line.removeprefix("error ") or "its warden has died"
        self._watcher = threading.Thread(target=lambda: None)
        self._watcher.start()
        self.kill()
        raise TargetError(f"{self.command[0]}: cannot be started: {why}")

    def _read(self) -> None:
        while True:
            try:
                some = os.read(self._master, 1 << 16)
            except OSError:  # EIO: the last of them has closed its terminal
                return
            if not some:
                return
            with self._changed:
                self._output += some
                if len(self._output) > 2 * _KEPT_BYTES:
                    self._dropped += len(self._output) - _KEPT_BYTES
                    del self._output[:-_KEPT_BYTES]
                self._changed.notify_all()

    def _watch(self) -> None:
        line = _line(self._status)
        os.close(self._status)
        # Whoever sees that it has ended sees all that it has printed; a child of it may keep the terminal open.
        self._reader.join(_SAYS_LAST_WITHIN_S)
        with self._changed:
            self._ended = int(line[5:]) if line.startswith("exit ") else -signal.SIGKILL
            self._changed.notify_all()


def _line(fd: int) -> str:
    found = bytearray()
    while not found.endswith(b"\n"):
        some = os.read(fd, 1)
        if not some:
            break
        found += some
    return found.decode(errors="replace").strip()


def _raw(terminal: int) -> None:
    import tty

    tty.setraw(terminal)
