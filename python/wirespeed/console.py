r"""The edge to a terminal: what comes from files, names, paths and scenarios is shown, never obeyed.

A control character in such a text is shown as its escape (`\x1b`), and so are the characters that turn the direction
of a line. Styles are put on by rich alone, behind this edge: `Console` shows the text of what it renders, and
`guarded` stands around a command, so that whatever else is printed meanwhile is shown too.
"""

from __future__ import annotations

import contextlib
import functools
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any, Final

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

# Longer than any line of ours: beyond it a text is somebody's name.
LONGEST: Final = 2000


def visible(text: str, kept: str = "\n") -> str:
    r"""A text with each control character, but those in `kept`, as its escape.

    >>> print(visible("a\x1b[31mred\x07"))
    a\x1b[31mred\x07
    """
    return text.translate(_shown(kept))


class Console(rich.console.Console):
    """Rich's, of which all text is shown, and a text that is far too long is cut."""

    @property
    def file(self) -> IO[str]:
        """The stream itself, behind whatever stands before it."""
        return _behind(super().file)

    @file.setter
    def file(self, new: IO[str]) -> None:
        self._file = new

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does."""
        if isinstance(renderable, Text) and len(renderable) > LONGEST:
            renderable = _cut_text(renderable)
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def emit(text: str) -> None:
    """Prints to stdout what a `Console` has rendered, or JSON, in which what is shown is an escape of JSON's."""
    stream = _behind(sys.stdout)
    styled = rich.console.Console(file=stream).is_terminal
    shown = (part if styled and place % 2 else visible(part, "\n\t") for place, part in enumerate(_STYLE.split(text)))
    stream.write("".join(shown) + "\n")
    stream.flush()


def folded(command: str, width: int) -> str:
    r"""A command line in lines of `width` columns, where its options allow that: a shell takes them for one.

    >>> print(folded("wirespeed run forwarding --set machine.cores=2 --set 'run.packets=10 M' -q", 44))
    wirespeed run forwarding \
      --set machine.cores=2 \
      --set 'run.packets=10 M' -q
    """
    try:
        words = shlex.split(command, posix=False)
    except ValueError:
        return command
    if len(command) <= width or " ".join(words) != command:
        return command
    parts: list[str] = []
    for word in words:
        if not parts or word.lstrip("'\"").startswith("-"):
            parts.append(word)
        else:
            parts[-1] += f" {word}"
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 1 <= width - 2:
            lines[-1] += f" {part}"
        else:
            lines.append(f"  {part}")
    return " \\\n".join(lines)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """While the block runs, what is printed by whatever means is shown; typer's messages come from a `Console`."""
    from typer import rich_utils

    kept = [(sys, "stdout"), (sys, "stderr"), (rich_utils, "Console")]
    before = [getattr(module, name) for module, name in kept]
    for (module, name), new in zip(kept, (_Guarded(sys.stdout), _Guarded(sys.stderr), Console), strict=True):
        setattr(module, name, new)
    try:
        yield
    finally:
        for (module, name), old in zip(kept, before, strict=True):
            setattr(module, name, old)


@functools.cache
def _shown(kept: str) -> dict[int, str]:
    return {code: to for code, to in _ALL.items() if chr(code) not in kept}


class _Guarded:
    """A stream to which text is shown. What is rendered goes to the stream behind it."""

    def __init__(self, stream: IO[str]) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write("\n".join(_cut(visible(line)) for line in text.split("\n")))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def _behind(stream: IO[str]) -> IO[str]:
    while (inner := getattr(stream, "rich_proxied_file", None)) is not None:
        stream = inner
    return stream


def _cut(line: str) -> str:
    return line if len(line) <= 2 * LONGEST else f"{line[:LONGEST]}… ({len(line) - LONGEST:,} more characters)"


def _cut_text(text: Text) -> Text:
    cut = text[:LONGEST]
    cut.append(f"… ({len(text) - LONGEST:,} more characters)")
    return cut


# C0, DEL and C1, and what changes the direction of text or ends a line (Unicode UAX #9).
_CONTROLS: Final = (
    *range(0x20),
    *range(0x7F, 0xA0),
    *(0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)),
)
# JSON has no control of C0 in it; of the others these are its own escapes, which mean the same.
_ALL: Final = {code: f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}" for code in _CONTROLS}
_STYLE: Final = re.compile(r"(\x1b\[[0-9;]*m)")
