"""The one look of tables on a terminal: no lines, dim heads, numbers to the right."""

from __future__ import annotations

from rich.table import Table


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
