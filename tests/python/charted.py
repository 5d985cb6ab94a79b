"""What holds of every chart: an axis of numbers says its unit, nothing is averaged unseen, errors have bars.

The specification is Vega-Lite's, as it goes to the drawing library. `faults` says what is wrong with one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

UNITS: Final = (
    *("Mpps", "Gbps", "Gbit/s", "Mbit/s", "GB/s", "MB/s", "ns", "µs", "us", "ms", "s", "%", "points", "nJ", "pJ"),
    *(
        "MiB",
        "KiB",
        "B",
        "bytes",
        "cycles",
        "clocks",
        "ratios",
        "ratio",
        "rate",
        "share",
        "probability",
        "times",
        "W",
        "GFLOP/s",
    ),
    *("instructions", "units", "millions", "instructions/s", "packets/s", "CPI", "FCP"),
    # What is counted is its own unit.
    *("packets", "cores", "mbufs", "descriptors", "ways", "entries", "lines", "slices", "channels", "banks", "rows"),
    *("transfers", "references", "flows", "buffers", "bursts", "MCW", "warps", "prefixes", "step", "seeds"),
)
_UNIT: Final = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, UNITS))})(?![\w])")
# A setting as the scenario spells it: its value has its unit, or is one of names.
_SETTING: Final = re.compile(r"[a-z_]\w*(?:\.\w+)+")


def faults(spec: Mapping[str, Any]) -> list[str]:
    """What is wrong with a chart's specification."""
    found = [f"averages unseen: {each}" for each in _aggregates(spec)]
    for view in _views(spec):
        layers = list(_layers(view, {}))
        for channel in ("x", "y"):
            of = [encoding[channel] for _, encoding in layers if channel in encoding]
            numbers = [each for each in of if each.get("type") == "quantitative"]
            titles = {title for each in numbers if (title := _title(each)) is not None}
            is_hidden = all(_is_hidden(each) for each in numbers)
            is_log = any((each.get("scale") or {}).get("type") == "log" for each in numbers)
            if is_log and not is_hidden and not any("log scale" in title for title in titles):
                found.append(f"the axis {channel} is logarithmic and does not say so: {sorted(titles) or 'no title'}")
            if numbers and not is_hidden and not any(_says(title) for title in titles):
                found.append(f"the axis {channel} names no unit: {sorted(titles) or 'no title'}")
        has_bars = any({"x2", "y2"} & set(encoding) for _, encoding in layers)
        if _has_ends(view) and not has_bars:
            found.append("data have errors, and no bars show them")
    return found


def _says(title: str) -> bool:
    return bool(_UNIT.search(title) or _SETTING.fullmatch(title.strip()))


def _is_hidden(channel: Mapping[str, Any]) -> bool:
    """Whether an axis is none, or has no labels since the chart below has them."""
    return "axis" in channel and (channel["axis"] is None or channel["axis"].get("labels") is False)


def _title(channel: Mapping[str, Any]) -> str | None:
    axis = channel.get("axis") or {}
    title = axis.get("title", channel.get("title"))
    return " ".join(title) if isinstance(title, list) else title


def _views(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The single charts of a specification: layers belong together, what is side by side does not."""
    for name in ("vconcat", "hconcat", "concat"):
        for each in spec.get(name, ()):
            yield from _views({"datasets": spec.get("datasets", {}), "data": spec.get("data"), **each})
    if "spec" in spec:
        yield from _views({"datasets": spec.get("datasets", {}), "data": spec.get("data"), **spec["spec"]})
    elif not {"vconcat", "hconcat", "concat"} & set(spec):
        yield spec


def _layers(view: Mapping[str, Any], above: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    encoding = {**above, **view.get("encoding", {})}
    if "layer" not in view:
        yield view, encoding
    for each in view.get("layer", ()):
        yield from _layers(each, encoding)


def _aggregates(spec: Any) -> Iterator[str]:
    if isinstance(spec, Mapping):
        for name, each in spec.items():
            if name == "aggregate":
                yield str(each)
            elif name not in ("datasets", "values"):
                yield from _aggregates(each)
    elif isinstance(spec, list):
        for each in spec:
            yield from _aggregates(each)


def _has_ends(view: Mapping[str, Any]) -> bool:
    """Whether a row of the data says from where to where its value is, and these are apart."""
    rows = list((view.get("data") or {}).get("values") or [])
    named = (view.get("data") or {}).get("name")
    rows += (view.get("datasets") or {}).get(named, [])
    for layer, _ in _layers(view, {}):
        rows += (layer.get("data") or {}).get("values") or []
        rows += (view.get("datasets") or {}).get((layer.get("data") or {}).get("name"), [])
    return any(_is_apart(row) for row in rows if isinstance(row, dict))


def _is_apart(row: Mapping[str, Any]) -> bool:
    return bool(row.get("half_width")) or row.get("low") != row.get("high")
