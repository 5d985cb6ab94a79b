"""A file of an operator as text with lines, and errors that say where in it.

Such files are pasted, piped and cut. Bytes that are no UTF-8 are replaced and noted; a line that does not end is left
out and noted, since half a number reads as a number; what holds zero bytes is refused.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from wirespeed.errors import InputError

# Larger than any output that tells of one machine; a capture given by mistake is not read to its end.
MOST_BYTES: Final = 64 << 20
# A document begins its line, or stands behind a prompt of dpdk-telemetry.py.
_START: Final = re.compile(r"^(?:(?:-->|[<>] )[^{\[\n]*)?[ \t]*(?=[{\[])", re.MULTILINE)
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CUT: Final = "the last line does not end, and is left out"
"""What is noted of a file whose last line may be half of one."""
_SHOWN: Final = 60
_NUMBER: Final = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
# A number of more digits is none that a counter has.
_DIGITS: Final = 40
_BYTES: Final[Mapping[str, int]] = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE: Final = re.compile(r"([\d.]{1,20})\s*([BKMGT]?)(?:i?B|B)?", re.IGNORECASE)


_MOST_CORES = 1 << 14
"""CPUs that a list may name."""


class OperatorText:
    """The lines of a file, counted from 1."""

    def __init__(self, file: str, content: str, notes: tuple[str, ...] = ()) -> None:
        """`content` is all of the file; `notes` are what had to be done to read it."""
        self.file = file
        self.content = _ESCAPE.sub("", content).replace("\r\n", "\n").removeprefix("\ufeff")
        self.notes = list(notes)
        self.lines = self.content.split("\n")
        self.cut = self.lines.pop().strip() != ""
        """Whether the last line does not end."""
        self.body, self.rest = self.content, ""
        """All lines that end, and what stands behind them."""
        if self.cut:
            self.rest = self.content.rpartition("\n")[2]
            self.body = self.content[: len(self.content) - len(self.rest)]
        self._documents: list[Any] | None = None

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Number and text of each line that ends."""
        return iter(enumerate(self.lines, 1))

    def refuse(self, line: int | None, what: str) -> InputError:
        """An error at a line; the whole file where there is none."""
        return InputError(f"{self.file}{'' if line is None else f':{line}'}: {what}")

    def ended(self, wanted: str) -> InputError:
        """An error of a file that ends before what it must hold."""
        last = next((n for n, line in reversed(list(self)) if line.strip()), 1)
        cut = " (its last line does not end: was it cut?)" if self.cut else ""
        return self.refuse(last, f"ends before {wanted}{cut}; save the whole output")

    def line_of(self, fragment: str) -> int | None:
        """The first line that holds `fragment`."""
        at = self.content.find(fragment)
        return None if at < 0 else self.content.count("\n", 0, at) + 1

    def documents(self) -> list[Any]:
        """The JSON documents of the file, one behind the other; prompts and comments between them are passed over.

        Empty where the file is no JSON. Raises InputError with the line where a document breaks off.
        """
        if self._documents is None:
            self._documents = self._decoded() if self.content.lstrip()[:1] in ("{", "[") or self._prompts() else []
        return self._documents

    def _prompts(self) -> bool:
        first = next((line for line in self.content.split("\n") if line.strip() and not line.startswith("#")), "")
        return first.startswith(("{", "--> ", "> /"))

    def _decoded(self) -> list[Any]:
        found, at, decoder = [], 0, json.JSONDecoder(parse_constant=_no_constant)
        while (begin := _START.search(self.content, at)) is not None:
            self._pass_over(at, begin.start())
            try:
                document, at = decoder.raw_decode(self.content, begin.end())
            except json.JSONDecodeError as e:
                raise self.refuse(e.lineno, f"is no whole JSON ({e.msg}); save the whole output") from None
            except (ValueError, RecursionError):
                line = self.content.count("\n", 0, begin.end()) + 1
                raise self.refuse(line, "is JSON that no tool writes (a huge number, or endless depth)") from None
            found.append(document)
        self._pass_over(at, len(self.content))
        return found

    def _pass_over(self, begin: int, end: int) -> None:
        """Notes the first line between documents that is neither a prompt nor a comment."""
        first = self.content.count("\n", 0, begin) + 1
        for n, line in enumerate(self.content[begin:end].split("\n"), first):
            if line.strip(" ,\t") and not line.lstrip().startswith(("#", "-->", "> ", "< ", "Connect")):
                self.notes.append(f"{self.file}:{n}: is no JSON, and is passed over: {shown(line)}")
                return


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def opened(path: str | os.PathLike[str]) -> OperatorText:
    """The text of a file. Raises InputError for what is no text, and OSError."""
    file = os.fspath(path)
    if Path(file).is_dir():
        raise InputError(f"{file}: is a folder; name the files in it")
    with Path(file).open("rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise InputError(f"{file}: has more than {MOST_BYTES >> 20} MiB; outputs of tools have less")
    return of_bytes(file, content)


def of_bytes(file: str, content: bytes) -> OperatorText:
    """The text of a file's bytes. Raises InputError for what is no text."""
    if not content.strip():
        raise InputError(f"{file}:1: is empty; save the output of a tool there")
    if (at := content.find(b"\0")) >= 0:
        line = content.count(b"\n", 0, at) + 1
        raise InputError(f"{file}:{line}: is no text (a zero byte); save what the tool prints")
    try:
        return OperatorText(file, content.decode())
    except UnicodeDecodeError as e:
        line = content.count(b"\n", 0, e.start) + 1
        note = f"{file}:{line}: byte {content[e.start]:#04x} is no UTF-8; such bytes are read as �"
        return OperatorText(file, content.decode(errors="replace"), (note,))


def shown(text: object) -> str:
    """What came, short enough for a message.

    >>> shown("a" * 100)[-8:], shown("RX")
    ('aaaaaa…`', '`RX`')
    """
    words = " ".join(str(text).split())
    return f"`{words}`" if len(words) <= _SHOWN else f"`{words[:_SHOWN]}…`"


def number(given: object) -> float | None:
    """A number, None where a tool has none: n/a, null, -, <not supported>, and what is no number.

    >>> number("4096"), number("1.2e7"), number("n/a"), number(True), number("1e999")
    (4096.0, 12000000.0, None, None, inf)
    """
    if isinstance(given, bool) or given is None:
        return None
    if isinstance(given, int | float):
        return float(given) if abs(given) < 10**_DIGITS else float("inf")
    text = str(given).strip().replace(",", "")
    if not text.isascii() or _NUMBER.fullmatch(text) is None:
        return None
    return float(text)


def whole(given: object) -> int | None:
    """A whole number, None where there is none; a fraction is none.

    >>> whole("256"), whole("0x10"), whole("2.5"), whole("n/a")
    (256, 16, None, None)
    """
    text = str(given).strip()
    if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text):
        return int(text, 16)
    found = number(given)
    if found is None or found != found // 1:
        return None
    return int(min(max(found, -1e30), 1e30))


def size(given: object) -> int | None:
    """Bytes of `48K`, `24.8 MiB`, `2 MiB` or `32 GB`, by powers of 1024 as tools mean them; None for what is none.

    >>> size("48K"), size("2 MiB"), size("32 GB"), size("-")
    (49152, 2097152, 34359738368, None)
    """
    found = _SIZE.fullmatch(str(given).strip())
    value = None if found is None else number(found[1])
    if found is None or value is None:
        return None
    return round(value * _BYTES[found[2].upper()])


def cpus(given: str) -> list[int] | None:
    """The processors of a list such as `0,2-5`; None where it is none.

    >>> cpus("0,2-4"), cpus("a"), cpus("5-2")
    ([0, 2, 3, 4], None, None)
    """
    found: set[int] = set()
    for part in given.replace(" ", ",").split(","):
        if not part:
            continue
        ends = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)
        if ends is None:
            return None
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last < first or last - first > _MOST_CORES:
            return None
        found.update(range(first, last + 1))
    return sorted(found) if len(found) <= _MOST_CORES else None
