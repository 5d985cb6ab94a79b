"""The page of a trace: chosen packets as bars of where they are, losses over time, bursts with what they fetch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from wirespeed import quantities as q
from wirespeed.lives.documents import PLACES, SERVED, STAGES, Burst, Life, Lives
from wirespeed.report.palette import colour
from wirespeed.report.shell import shell, table
from wirespeed.summary_types import Summary

_SHOWN: Final = 60
"""Packets of a section, of which the trace has more."""
_LOSSES: Final = 4
"""Losses that are drawn."""
_OPEN: Final = 12
"""Packets whose bursts are drawn."""
_WIDTH, _ROW = 820, 16
_STYLE: Final = (
    # Narrower, its words could not be read: it scrolls.
    f"<style>.lives svg{{width:100%;min-width:{_WIDTH}px;height:auto;display:block}}"
    ".lives text{font-size:12px;fill:var(--muted)}"
    ".lives .life{margin:2px 0}.lives figure{margin:10px 0}"
    ".legend{display:flex;flex-wrap:wrap;gap:4px 14px;margin:8px 0}"
    ".legend i{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:5px;vertical-align:-1px}"
    ".lives summary{cursor:pointer;padding:4px 0}</style>"
)


def page(lives: Lives, summary: Summary | None = None) -> str:
    """One HTML document that needs no network and no script."""
    title = f"Packets of {summary['name']}" if summary is not None else "Packets"
    slow = sorted(_of(lives, "slowest"), key=lambda life: -life["sojourn"])
    body = _STYLE + '<div class="lives">'
    if slow:
        body += f"<section><h2>Where slow packets are</h2>{_legend(slow)}{_bars(slow[:_SHOWN])}{_rest(slow)}</section>"
    for loss in lives["losses"][:_LOSSES]:
        at = [life for life in _of(lives, "loss") if _was_there(life, loss)]
        text = f"Packet {q.count(loss['packet'])} is lost: {escape(loss['reason'])}"
        body += f"<section><h2>{text}</h2>{_legend(at)}{_around(at, loss['at'])}{_rest(at)}</section>"
    every = _of(lives, "every")
    if every:
        body += f"<section><h2>One in so many</h2>{_legend(every)}{_bars(every[:_SHOWN])}{_rest(every)}</section>"
    bursts = {burst["burst"]: burst for burst in lives["bursts"]}
    opened = "".join(_opened(life, bursts) for life in (slow or every or lives["packets"])[:_OPEN])
    if opened:
        body += f"<section><h2>One by one</h2>{opened}</section>"
    about = "Times are simulated. The file beside this page is the same for Perfetto: open it at ui.perfetto.dev."
    return shell(title, headline(lives, summary), f'<p class="about">{about}</p>', body + "</div>")


def headline(lives: Lives, summary: Summary | None = None) -> str:
    """What the trace says first; with a summary, where slow packets are slower than the mean."""
    slow, losses = _of(lives, "slowest"), lives["losses"]
    if slow:
        times = [life["sojourn"] / 1e3 for life in slow]
        text = f"The {len(slow)} slowest packets stay {q.ends(min(times), max(times))}"
        more = _beyond_mean(slow, summary.get("attribution_ns") or {}) if summary is not None else {}
        longer = sum(more.values())
        if more and longer > 0:
            place, most = max(more.items(), key=lambda each: each[1])
            text += (
                f", {q.duration(longer)} longer than the mean: {q.share(min(1.0, most / longer), 0)} of that {place}"
            )
        return text + "."
    if losses:
        return f"{len(losses)} losses, and what rings held at each."
    return f"{len(lives['packets'])} packets, one by one." if lives["packets"] else "No packet was written down."


def _of(lives: Lives, why: str) -> list[Life]:
    return [life for life in lives["packets"] if why in life["chosen"]]


def _was_there(life: Life, loss: Mapping[str, int]) -> bool:
    """Whether it was inside when that packet was lost, for the same core, or is that packet."""
    if not life["spans"][0]["from"] <= loss["at"] <= _end(life):
        return False
    return life["packet"] == loss["packet"] or any(span.get("core") == loss["core"] for span in life["spans"])


def _end(life: Life) -> int:
    return int(life["spans"][-1]["to"])


def _by_stage(lives: Iterable[Life]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for life in lives:
        for span in life["spans"]:
            sums[span["stage"]] += span["to"] - span["from"]
    return sums


def _beyond_mean(lives: Sequence[Life], mean: Mapping[str, float]) -> dict[str, float]:
    """By place, how much longer these packets are there than the mean is, in nanoseconds."""
    sums, left = _by_stage(lives), dict(mean)
    found = {}
    for place, stages, reasons in PLACES:
        of_mean = sum(left.pop(reason, 0.0) for reason in (reasons or list(left)))
        found[place] = sum(sums[stage] for stage in stages) / len(lives) / 1e3 - of_mean
    return found


def _legend(lives: Sequence[Life]) -> str:
    there = _by_stage(lives)
    items = "".join(
        f'<span><i style="background:{colour(reason)}"></i>{escape(name)}</span>'
        for stage, (name, reason) in STAGES.items()
        if there[stage]
    )
    return f'<p class="legend">{items}</p>'


def _rest(lives: Sequence[Life]) -> str:
    more = len(lives) - _SHOWN
    return f'<p class="note">{q.count(more)} more are in the trace.</p>' if more > 0 else ""


def _bars(lives: Sequence[Life]) -> str:
    """Each from its first bit on, to one scale."""
    longest = max((_end(life) - life["spans"][0]["from"] for life in lives), default=1)
    rows = [(life, life["spans"][0]["from"]) for life in lives]
    return _drawn(rows, longest, None)


def _around(lives: Sequence[Life], at: int) -> str:
    """Each in its time, with a line at `at`."""
    shown = lives[-_SHOWN:]
    start = min((life["spans"][0]["from"] for life in shown), default=at)
    longest = max([*(_end(life) for life in shown), at]) - start
    return _drawn([(life, start) for life in shown], longest, at - start)


def _drawn(rows: Sequence[tuple[Life, int]], longest: int, line: int | None) -> str:
    label, scale = 110, (_WIDTH - 120) / max(1, longest)
    parts, y = [], 18
    for life, start in rows:
        told = f"packet {life['packet']}, {life['fate']}, {q.duration(life['sojourn'] / 1e3)}"
        parts.append(f'<g><text x="0" y="{y + 11}">{escape(q.count(life["packet"]))}</text>')
        for span in life["spans"]:
            name, reason = STAGES[span["stage"]]
            took = q.duration((span["to"] - span["from"]) / 1e3)
            x, wide = label + (span["from"] - start) * scale, (span["to"] - span["from"]) * scale
            parts.append(_box((x, y), wide, _ROW - 3, reason, f"{told}: {name} {took}"))
        parts.append("</g>")
        y += _ROW
    if line is not None:
        x = label + line * scale
        parts.append(f'<path d="M{x:.2f} 14V{y}" stroke="var(--bad)" stroke-width="2"/>')
        parts.append(f'<text x="{x - 4:.2f}" y="11" text-anchor="end">lost</text>')
    axis = _axis(label, scale, longest, y)
    return _figure(f"{len(rows)} packets, where each is over time", "".join(parts) + axis, y + 22)


def _figure(said: str, drawn: str, high: int) -> str:
    return f'<figure><svg viewBox="0 0 {_WIDTH} {high}" role="img" aria-label="{said}">{drawn}</svg></figure>'


def _box(at: tuple[float, float], wide: float, high: int, reason: str, told: str) -> str:
    """What lasted so long, with what is said of it where one points at it; the shortest is seen, too."""
    return (
        f'<rect x="{at[0]:.2f}" y="{at[1]}" width="{max(wide, 0.4):.2f}" height="{high}" fill="{colour(reason)}">'
        f"<title>{escape(told)}</title></rect>"
    )


def _axis(label: int, scale: float, longest: int, y: int) -> str:
    step = 10 ** len(str(max(1, longest // 5)))
    step = next(s for s in (step // 10, step // 5, step // 2, step) if longest / max(1, s) <= 8)
    parts = [f'<path d="M{label} {y + 2}H{_WIDTH - 10}" stroke="var(--grid)"/>']
    for at in range(0, longest + 1, max(1, step)):
        x = label + at * scale
        parts.append(f'<path d="M{x:.1f} {y + 2}v4" stroke="var(--muted)"/>')
        anchor = "end" if x > _WIDTH - 40 else "middle"
        parts.append(f'<text x="{x:.1f}" y="{y + 17}" text-anchor="{anchor}">{escape(q.duration(at / 1e3))}</text>')
    return "".join(parts)


def _opened(life: Life, bursts: Mapping[int, Burst]) -> str:
    """A packet's spans, and its bursts with what they fetch."""
    rows = [
        [
            STAGES[span["stage"]][0],
            q.duration((span["to"] - span["from"]) / 1e3),
            str(span["core"]) if "core" in span else "",
        ]
        for span in life["spans"]
    ]
    inner = table(["where", "for", "core"], rows)
    for span in life["spans"]:
        burst = bursts.get(span.get("burst", -1))
        if burst is not None:
            inner += _burst(burst)
    label = f"Packet {q.count(life['packet'])}: {life['fate']}, {q.duration(life['sojourn'] / 1e3)}"
    return f'<details class="life"><summary>{escape(label)}</summary>{inner}</details>'


def _burst(burst: Burst) -> str:
    fetches = burst["fetches"]
    took = q.duration((burst["to"] - burst["from"]) / 1e3)
    text = f"Its burst on core {burst['core']}: {burst['packets']} packets, {took}, {len(fetches)} fetches beyond L2."
    if not fetches:
        return f"<p>{escape(text)}</p>"
    longest = burst["to"] - burst["from"]
    label, scale = 210, (_WIDTH - 220) / max(1, longest)
    parts, y = [], 4
    for fetch in fetches[:_SHOWN]:
        by = SERVED.get(fetch["served"], fetch["served"])
        parts.append(f'<text x="0" y="{y + 10}">{escape(fetch["access"])}: {escape(by)}</text>')
        at = fetch["from"]
        for reason, time in fetch["path"]:
            told = f"{reason.replace('_', ' ')} {q.duration(time / 1e3)}, line {fetch['line'] * 64:#x}"
            parts.append(_box((label + (at - burst["from"]) * scale, y), time * scale, _ROW - 4, reason, told))
            at += time
        y += _ROW - 1
    drawn = "".join(parts) + _axis(label, scale, longest, y)
    return f"<p>{escape(text)}</p>" + _figure("fetches of a burst over time", drawn, y + 24)
