"""The view of a run in a notebook: verdict, key numbers and where the time goes, in a few lines of HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from wirespeed import quantities as q
from wirespeed.report.palette import colour
from wirespeed.summary import curve_text, headline, key_numbers, mark, slices, warnings
from wirespeed.summary_types import Summary

_EDGES: Final[Mapping[str, str]] = {
    "keeps": "#0b9a6b",
    "fails": "#d0463b",
    "open": "#b98a12",
    "plain": "#2f8fd0",
}


def answer(
    headline: str, verdict: str, facts: Sequence[str], commands: Sequence[tuple[str, str]], table: str = ""
) -> str:
    """An answer in a few lines: colours are the notebook's own but for the edge, so that it stands in light and dark.

    `verdict` is plain, keeps, open or fails; `table` is HTML.
    """
    told = "".join(f"<div style='opacity:.8;font-size:90%'>{escape(fact)}</div>" for fact in facts)
    run = "".join(
        f"<div style='margin-top:6px'>{escape(label)}:</div><pre style='white-space:pre-wrap'>{escape(command)}</pre>"
        for label, command in commands
    )
    return (
        f"<div style='border-left:4px solid {_EDGES[verdict]};padding:4px 12px;max-width:60em;overflow-wrap:anywhere'>"
        f"<div style='font-size:110%;font-weight:600'>{escape(headline)}</div>{told}{run}{table}</div>"
    )


def card(summary: Summary) -> str:
    """A fragment without scripts or style sheets, so that it stands in any notebook, light or dark."""
    found = mark(summary)
    edge = {"good": "#0b9a6b", "bad": "#d0463b", "open": "#b98a12"}[found.tone]
    notes = "".join(f"<div style='color:#b98a12'>{escape(note)}</div>" for note in warnings(summary))
    told = curve_text(summary)
    reach = f"<div style='font-weight:600'>{escape(told)}</div>" if told else ""
    cells = "".join(
        f"<div style='min-width:8em'><div style='opacity:.7;font-size:85%'>{escape(n.label)}</div>"
        f"<div style='font-size:120%;font-weight:600'>{escape(n.value)}</div>"
        f"<div style='opacity:.7;font-size:80%'>{escape(n.detail)}</div></div>"
        for n in key_numbers(summary)
    )
    parts = slices(summary.get("attribution_ns"), summary.get("attribution_labels"))
    bar = "".join(
        f"<span title='{escape(p.label)}: {q.duration(p.ns)}, {q.share(p.share)}' "
        f"style='flex:{p.share:.5f} 1 0;min-width:1px;background:{colour(p.reason)}'></span>"
        for p in parts
    )
    largest = sorted(parts, key=lambda p: -p.share)[:4]
    words = ", ".join(f"{escape(p.label)} {q.share(p.share, 0)}" for p in largest)
    time_goes = (
        f"<div style='margin-top:8px'>Where the time goes: {words}</div>"
        f"<div style='display:flex;gap:1px;height:18px;border-radius:3px;overflow:hidden'>{bar}</div>"
        if parts
        else ""
    )
    return (
        f"<div style='border-left:4px solid {edge};padding:4px 12px;max-width:60em;overflow-wrap:anywhere'>"
        f"<div style='font-size:110%;font-weight:600'>{found.symbol} {escape(headline(summary))}</div>{reach}{notes}"
        f"<div style='display:flex;flex-wrap:wrap;gap:8px 24px;margin-top:6px'>{cells}</div>{time_goes}</div>"
    )
