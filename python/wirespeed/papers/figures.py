"""Figures of papers as static SVG, and the page that shows them and the claims. Nothing is run here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wirespeed import quantities as q

if TYPE_CHECKING:
    import altair as alt  # drawing costs a quarter of a second to import

WIDTH: Final = 460
HEIGHT: Final = 280

Chart: TypeAlias = "alt.Chart | alt.LayerChart | alt.VConcatChart | alt.HConcatChart | alt.ConcatChart | alt.FacetChart"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: a short name for its file (`fig13`), a caption, and an altair chart."""

    name: str
    caption: str
    chart: Chart

    def svg(self) -> str:
        """The figure as an SVG document."""
        import altair as alt
        import vl_convert

        spec = self.chart.properties(
            title=alt.TitleParams(self.caption, anchor="start", fontSize=12, limit=WIDTH + 100)
        )
        return vl_convert.vegalite_to_svg(spec.configure(background="white").to_dict())


def lines(
    points: Sequence[Mapping[str, Any]],
    *,
    x: str,
    y: str,
    by: str,
    x_title: str | None = None,
    y_title: str | None = None,
    half_width: str | None = None,
    log_x: bool = False,
    log_y: bool = False,
    printed: Sequence[Mapping[str, Any]] = (),
    colours: Mapping[str, str] | None = None,
) -> alt.LayerChart:
    """A line for each value of the field `by`: field `y` over field `x`, with error bars if `half_width` names a field.

    Points without a number in `x` or `y` are left out; on a logarithmic scale those at or below 0 too. `printed` are
    points that the paper gives, in the same fields: hollow diamonds in the colour of their line. `colours` has the
    colour of each line where several figures show the same.
    """
    import altair as alt

    def shown(point: Mapping[str, Any]) -> dict[str, Any] | None:
        across, up = point.get(x), point.get(y)
        if not q.is_number(across) or not q.is_number(up) or (log_x and across <= 0) or (log_y and up <= 0):
            return None
        wide = point.get(half_width) if half_width is not None else None
        wide = wide if q.is_number(wide) else 0.0
        low = up - wide if not log_y else max(up - wide, up * 0.1)
        return {"x": across, "y": up, "by": str(point[by]), "low": low, "high": up + wide}

    rows = [row for point in points if (row := shown(point)) is not None]
    theirs = [row for point in printed if (row := shown(point)) is not None]
    order = list(dict.fromkeys(str(row["by"]) for row in (*rows, *theirs)))
    fixed = alt.Undefined if colours is None else alt.Scale(domain=order, range=[colours[name] for name in order])
    x_title, y_title = _titled(x_title or x, log_x), _titled(y_title or y, log_y)
    across = alt.X("x:Q", title=x_title, scale=alt.Scale(type="log" if log_x else "linear", zero=False))
    legend = alt.Legend(title=None, orient="top", direction="horizontal")
    line = alt.Color("by:N", sort=order, legend=legend, scale=fixed)
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=across, color=line)
    scale = alt.Scale(type="log" if log_y else "linear", zero=not log_y)
    height = alt.Y("y:Q", title=y_title, scale=scale)
    layers = [base.mark_line(strokeWidth=2).encode(y=height), base.mark_point(filled=True, size=40).encode(y=height)]
    if half_width is not None:
        layers.append(base.mark_rule().encode(y=alt.Y("low:Q", title=y_title, scale=scale), y2="high:Q"))
    if theirs:
        of_paper = alt.Chart(alt.InlineData(values=theirs)).encode(x=across, color=line, y=height)
        layers.append(of_paper.mark_point(filled=False, shape="diamond", size=140, strokeWidth=2))
        layers.append(of_paper.mark_text(dx=9, align="left", baseline="middle", text="paper", fontSize=10))
    return alt.LayerChart(layer=layers, width=WIDTH, height=HEIGHT)


def page(
    title: str,
    tallies: Mapping[str, str],
    claims: Sequence[Mapping[str, Any]],
    drawn: Sequence[tuple[str, Figure, str]],
) -> str:
    """One HTML document: how many claims hold by reading, the figures, then all claims. It needs no network."""
    heads = (
        "reading",
        "claim",
        "where",
        "paper",
        "ours",
        "half_width",
        "deviation_pct",
        "tolerance_pct",
        "kind",
        "note",
        "status",
    )
    rows = "\n".join(
        f'<tr class="{claim["status"]}">' + "".join(f"<td>{escape(cell(claim[head]))}</td>" for head in heads) + "</tr>"
        for claim in claims
    )
    shown = "\n".join(
        f"<h2>{escape(f'{figure.name}, reading {reading}')}</h2>\n{svg}" for reading, figure, svg in drawn
    )
    counts = "\n".join(f"<p>{escape(f'Reading {reading}: {words}.')}</p>" for reading, words in tallies.items())
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in heads)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style></head><body>\n<h1>{escape(title)}</h1>\n{counts}\n{shown}\n<h2>Claims</h2>\n"
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>\n</body></html>\n"
    )


def cell(value: object) -> str:
    """A value as it stands in a table.

    >>> cell(0.021345), cell(None), cell("holds")
    ('0.0213', '–', 'holds')
    """
    return q.digits(value) if q.is_number(value) else q.MISSING if value is None else str(value)


_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}table{border-collapse:collapse}"
    "svg{max-width:100%;height:auto}"
    "td,th{padding:.2em .6em;text-align:left;border-bottom:1px solid #ddd;vertical-align:top}"
    "tr.reproduced td:last-child{color:#06752f}tr.partly td:last-child{color:#946100}"
    "tr.not td:last-child{color:#b3261e}tr.listed td{opacity:.7}"
    # Figures are drawn on white: turned over, with their hues kept.
    "@media(prefers-color-scheme:dark){body{background:#16181d;color:#e6e6e6}svg{filter:invert(.92) hue-rotate(180deg)}"
    "td,th{border-color:#444}tr.reproduced td:last-child{color:#6fd08c}tr.partly td:last-child{color:#e0b050}"
    "tr.not td:last-child{color:#f08a80}}"
)


def _titled(title: str, is_log: bool) -> str:
    return f"{title} (log scale)" if is_log else title
