"""Where a program's numbers come from: its standard output, DPDK's telemetry, or Prometheus."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import socket
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from wirespeed.errors import InputError, TargetError, nearest
from wirespeed.programs.process import Process

SOURCES: Final = ("stdout", "telemetry", "prometheus")
_ANSWERS_WITHIN_S: Final = 2.0
_MOST_BYTES: Final = 16 << 20


class Reading(Protocol):
    """A number of a running program."""

    counts: bool
    """Whether it is a running total, so that its difference over a window is what counts."""

    def read(self, process: Process) -> float | None:
        """The number now; None where there is none yet. Raises TargetError where there never will be."""


def parse(text: str, counts: bool) -> Reading:
    """A reading as the command line has it: `stdout:REGEX`, `telemetry:PREFIX` or `prometheus:URL#SERIES`.

    >>> parse("stdout:Mpps: ([0-9.]+)", False).counts
    False
    """
    source, colon, rest = text.partition(":")
    if source not in SOURCES or not colon or not rest:
        raise InputError(
            f"--reads {text!r}: must be stdout:REGEX, telemetry:PREFIX[/COUNTER] or prometheus:URL#SERIES"
            f"{nearest(source, SOURCES)}"
        )
    if source == "stdout":
        return Stdout(rest, counts)
    if source == "telemetry":
        prefix, _, counter = rest.partition("/")
        return Telemetry(prefix, counter or "opackets")
    url, hash, series = rest.partition("#")
    if not hash or not series or not re.match(r"https?://", url):
        raise InputError(f"--reads {text!r}: must be prometheus:http://HOST:PORT/metrics#SERIES")
    return Prometheus(url, series, counts)


class Stdout:
    """The last number that a pattern has found in what the program prints: its first group, else all of it."""

    def __init__(self, pattern: str, counts: bool) -> None:
        try:
            self._pattern = re.compile(pattern, re.MULTILINE)
        except re.error as e:
            raise InputError(f"--reads stdout:{pattern}: is no regular expression: {e}") from None
        self.counts = counts

    def read(self, process: Process) -> float | None:
        """The last match."""
        found = self.all(process.output)
        return found[-1] if found else None

    def all(self, text: str) -> list[float]:
        """All matches that are numbers."""
        numbers = []
        for match in self._pattern.finditer(text):
            with contextlib.suppress(ValueError, IndexError, TypeError):
                numbers.append(float((match[1] if self._pattern.groups else match[0]).replace(",", "")))
        return [number for number in numbers if math.isfinite(number)]


class Telemetry:
    """A counter of all ports of a DPDK program, by its telemetry socket (DPDK 20.05 and later)."""

    counts = True

    def __init__(self, prefix: str, counter: str = "opackets") -> None:
        self._prefix, self._counter = prefix, counter

    def read(self, process: Process) -> float | None:
        """The sum over ports; None as long as there is no socket."""
        path = socket_of(self._prefix)
        if path is None:
            return None
        try:
            with Client(path) as client:
                return float(sum(port[self._counter] for port in client.ports()))
        except KeyError:
            raise TargetError(
                f"{process.name}: DPDK telemetry has no counter {self._counter!r}; /ethdev/stats,0 lists them"
            ) from None
        except (OSError, ValueError) as e:  # an answer that is cut off is no JSON
            process.check()
            raise TargetError(f"{process.name}: DPDK telemetry at {path} does not answer: {e}") from None


class Client:
    """A connection to a DPDK telemetry socket: a context manager."""

    def __init__(self, path: Path) -> None:
        """Raises OSError where nobody answers."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_ANSWERS_WITHIN_S)
        try:
            self._socket.connect(os.fspath(path))
            self.about: dict[str, Any] = json.loads(self._socket.recv(1 << 16))
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def ask(self, command: str) -> Any:
        """What the program answers to a command such as `/ethdev/stats,0`."""
        self._socket.send(command.encode())
        answer = json.loads(self._socket.recv(int(self.about.get("max_output_len", 1 << 16))))
        return answer.get(command.partition(",")[0])

    def ports(self) -> list[dict[str, Any]]:
        """The statistics of every port."""
        return [self.ask(f"/ethdev/stats,{port}") or {} for port in self.ask("/ethdev/list") or []]


def socket_of(prefix: str) -> Path | None:
    """The telemetry socket of a DPDK program by its file prefix, if there is one."""
    for base in (Path("/var/run/dpdk"), Path(os.environ.get("XDG_RUNTIME_DIR", "/tmp")) / "dpdk"):
        path = base / prefix / "dpdk_telemetry.v2"
        if path.exists():
            return path
    return None


@dataclass(slots=True)
class Prometheus:
    """A series of a page in Prometheus' text format: a name, or a name with labels; the sum of what matches."""

    url: str
    series: str
    counts: bool

    def read(self, process: Process) -> float | None:
        """The sum of the series; None as long as the page cannot be had."""
        try:
            with urllib.request.urlopen(self.url, timeout=_ANSWERS_WITHIN_S) as page:
                text = page.read(_MOST_BYTES).decode(errors="replace")
        except urllib.error.HTTPError as e:
            raise TargetError(f"{process.name}: {self.url} answers {e.code} {e.reason}") from None
        except (urllib.error.URLError, OSError):
            process.check()
            return None
        found = self.find(text)
        if found is None:
            names = sorted({line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if line[:1] != "#"})
            raise TargetError(
                f"{process.name}: {self.url} has no series {self.series!r}{nearest(self.series, names)}; "
                f"there are {', '.join(names[:20]) or 'none'}"
            )
        return found

    def find(self, text: str) -> float | None:
        """The sum of the lines of the page that are of the series."""
        name, _, labels = self.series.partition("{")
        wanted = [each for each in labels.rstrip("}").split(",") if each]
        values = []
        for line in text.splitlines():
            match = re.match(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)", line)
            if match and match[1] == name and all(each in (match[2] or "") for each in wanted):
                with contextlib.suppress(ValueError):
                    values.append(float(match[3]))
        values = [value for value in values if math.isfinite(value)]
        return sum(values) if values else None
