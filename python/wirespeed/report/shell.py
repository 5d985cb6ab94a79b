"""What the pages of studies, advice and comparisons share with the report of a run: the frame, and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources


def shell(title: str, headline: str, under: str, body: str, verdict: str = "plain") -> str:
    """A page in the style of the report of a run; `under` and `body` are HTML.

    `verdict` is the box of the headline: plain, keeps (green), open (amber) or fails (red).
    """
    style = resources.files("wirespeed.report").joinpath("templates/style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f'<header class="verdict {verdict}"><p class="name">{escape(title)}</p><h1>{escape(headline)}</h1>{under}'
        f"</header>{body}</main></body></html>\n"
    )


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    words: Sequence[str] = (),
    under: Mapping[str, str] | None = None,
) -> str:
    """A table; the first column heads its rows, and columns of the heads in `words` hold sentences, which wrap.

    `under` is what stands below the first cell of a row, by that cell.
    """
    below = {cell: f'<span class="under">{escape(line)}</span>' for cell, line in (under or {}).items()}
    kinds = [' class="words"' if each in words else "" for each in heads]
    head = "".join(f'<th scope="col"{kind}>{escape(each)}</th>' for kind, each in zip(kinds, heads, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{escape(cell)}{below.get(cell, "")}</th>'
            if place == 0
            else f"<td{kinds[place]}>{escape(cell)}</td>"
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
