"""Pictures of `wirespeed gpu`: the roofline of a point, or rates over the setting that is varied."""

from __future__ import annotations

from typing import Any, Final

import altair as alt

from wirespeed.gpu.documents import GpuDocument
from wirespeed.gpu.machines import LINE, Gpu, idle
from wirespeed.gpu.shown import NAMES
from wirespeed.report import charts

SVG_MARK: Final = "<!-- wirespeed gpu -->"
"""What a picture holds, by which it is known as one that may be replaced."""
_INTENSITIES: Final = tuple(2.0 ** (n / 2) for n in range(-8, 21))


def chart(document: GpuDocument) -> str:
    """The picture as an SVG document."""
    drawn = _roofline(document) if document["vary"] is None else _varied(document)
    title = f"{', '.join(document['functions'])} on {document['preset']}"
    layers = drawn.properties(width=520, height=320, title=title)
    return charts.picture(layers).replace(">", f">{SVG_MARK}", 1)


def _varied(document: GpuDocument) -> Any:
    rows: list[dict[str, Any]] = [
        {"x": point["value"], "y": of["carries_mpps"], "system": NAMES[of["system"]]}
        for point in document["points"]
        for of in point["systems"]
    ]
    is_number = all(isinstance(row["x"], int | float) for row in rows)
    x = alt.X("x:Q", scale=alt.Scale(zero=False)) if is_number else alt.X("x:O", sort=None)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=x.title(str(document["vary"])),
        y=alt.Y("y:Q", title="carried, Mpps", scale=alt.Scale(zero=True)),
        color=alt.Color("system:N", legend=alt.Legend(title=None, orient="top")),
    )
    return alt.layer(base.mark_line(strokeWidth=2), base.mark_point(filled=True, size=40))


def _roofline(document: GpuDocument) -> Any:
    """Lane instructions a second over those for a byte of DRAM: what issue and bandwidth allow, and the kernel."""
    gpu = Gpu("", "", document["gpu"])
    spec = document["gpu"]["gpu"]
    roof = spec["cores"] * spec["simd_width"] * gpu.hertz / 1e9
    slope = idle(gpu)["dram_gb_per_s"]
    rows = [{"x": x, "y": min(roof, slope * x), "what": "GPU"} for x in _INTENSITIES]
    found = document["points"][0]["systems"][0]
    # A kernel of batches has the resident one's instructions, and bytes that are not known apart.
    a_byte = found["instructions_per_packet"] / (found["dram_bytes_per_packet"] or LINE)
    points = [
        {"x": a_byte, "y": mpps * found["instructions_per_packet"] / 1e3, "what": what}
        for what, mpps in (("the GPU alone", found["gpu_mpps"]), ("carried", found["carries_mpps"]))
    ]
    x = alt.X("x:Q", title="lane instructions a byte of DRAM (log scale)", scale=alt.Scale(type="log", nice=False))
    y = alt.Y("y:Q", title="lane instructions a second, 10^9 (log scale)", scale=alt.Scale(type="log", nice=False))
    line = alt.Chart(alt.InlineData(values=rows)).mark_line(strokeWidth=2, color="#0072b2").encode(x=x, y=y)
    marks = (
        alt.Chart(alt.InlineData(values=points))
        .mark_point(filled=True, size=60)
        .encode(x=x, y=y, color=alt.Color("what:N", legend=alt.Legend(title=None, orient="top")))
    )
    return alt.layer(line, marks)
