"""5GC2ache: DMA leakage by equation 1, beside a form that knows sets and ways.

What needs the simulated server (tables 1 to 3, figures 9(a), 9(c), 10 to 12 and 14 to 19) is not here yet: the room's
README says what is missing.
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil

from wirespeed import _wirespeed
from wirespeed.papers import Measured, Outcome, Paper, Request, figures


def measure(request: Request) -> Outcome:
    """Leakage over the number of descriptors, in per cent."""
    of = request.parameters("leakage.toml")
    packet, io_bytes, server = float(of["packet_bytes"]), int(of["io_bytes"]), of["server"]
    by_equation: dict[int, float] = {}
    points = []
    for descriptors in of["descriptors"]:
        by_equation[descriptors] = 100.0 * _wirespeed.balls_into_bins(descriptors, packet, io_bytes)
        by_sets = 100.0 * _wirespeed.cyclic_leakage(
            descriptors, ceil(packet / 64), server["touched"], server["sets"], server["ways"]
        )
        points.append({"model": "equation 1", "descriptors": descriptors, "leakage_pct": by_equation[descriptors]})
        points.append({"model": "sets and ways", "descriptors": descriptors, "leakage_pct": by_sets})
    counts = sorted(by_equation)
    falls = {f"{a} and {b}": by_equation[a] < by_equation[b] for a, b in pairwise(counts)}
    chart = figures.lines(
        points,
        x="descriptors",
        y="leakage_pct",
        by="model",
        x_title="receive descriptors",
        y_title="DMA leakage (%)",
        log_x=True,
    )
    return Outcome(
        measured={
            "leakage_4096": Measured(by_equation[4096]),
            "leakage_128": Measured(by_equation[128]),
            "leakage_falls": Measured(holds=falls),
            "resq_ring": Measured(float(_wirespeed.resq_descriptors(io_bytes, int(packet)))),
        },
        points=points,
        figures=[figures.Figure("fig9b", "Figure 9(b): DMA leakage by the number of descriptors", chart)],
    )


PAPER = Paper(
    id="2024-5gc2ache",
    title="5GC2ache: Improving 5G UPF Performance via Cache Optimization",
    authors="not named in the text that was used",
    venue="2024",
    year=2024,
    doi="",
    readings={"literal": "equation 1 with 6 MiB of I/O ways and packets of 1500 bytes"},
    measure=measure,
)
