"""The one look of tables and lists on a terminal: no lines, dim heads, numbers to the right, points that hang."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text


def table(*columns: str, title: str = "") -> Table:
    """A table without lines; a name that begins with `>` is set to the right. Heads are shown where there are any."""
    found = Table(
        box=None,
        show_header=any(c.lstrip(">") for c in columns),
        header_style="dim",
        padding=(0, 1, 0, 1),
        title=title or None,
        title_justify="left",
        title_style="bold",
    )
    for name in columns:
        found.add_column(
            name.lstrip(">"),
            justify="right" if name.startswith(">") else "left",
            no_wrap=name.startswith(">"),
            overflow="fold",
        )
    return found


def points(lines: Iterable[str], style: str = "") -> Table:
    """A list: each line behind a dot, and what does not fit into it below its own beginning."""
    found = Table.grid(padding=(0, 1, 0, 0))
    for line in lines:
        found.add_row(Text("·", style), Text(line, style))
    return found
