"""5GC2ache: DMA leakage by equation 1, beside a form that knows sets and ways, and the simulated testbed.

Throughput is what the receiving core carries when more is offered: packets a second times the size of the frames that
arrive. What is not judged is in the room's README.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import ceil
from typing import Any, Final, TypeAlias

from wirespeed import _wirespeed, api
from wirespeed.papers import Measured, Outcome, Paper, Request, figures

CASES: Final = ("default", "resq", "isolation5", "d512", "d256", "d128", "m16384", "m8192", "all")
ORDER: Final = ("default", "resq", "isolation5", "d512", "m16384", "all")
LARGEST: Final = 1500
WAYS: Final = 11
FRAMING_BYTES: Final = 20
"""Preamble and gap."""

Point: TypeAlias = dict[str, Any]


class Testbed:
    """The simulated testbed; each point is simulated once."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._of = request.parameters("pipeline.toml")
        self._points: dict[tuple[str, int, int | None], Point] = {}
        self.sizes: list[int] = self._of["sizes"]
        self.ways: list[int] = self._of["ways"]

    def point(self, case: str, size: int = LARGEST, io_ways: int | None = None) -> Point:
        """The case with packets of `size` bytes; isolation with `io_ways` ways, where given, in place of its own."""
        if (case, size, io_ways) not in self._points:
            self._points[case, size, io_ways] = self._simulated(case, size, io_ways)
        return self._points[case, size, io_ways]

    def points(self) -> list[Point]:
        """All that were simulated."""
        return list(self._points.values())

    def allocated(self, size: int) -> int:
        """The I/O ways that the allocator gives packets of `size` bytes, as far as the paper says."""
        return int(self._of["allocated"].get(str(size), self._of["io_ways"]["all"]))

    def _simulated(self, case: str, size: int, io_ways: int | None) -> Point:
        of = self._of
        line_mpps = 100e3 / (8 * (size + FRAMING_BYTES))
        settings: dict[str, Any] = {
            "traffic.packet_rate": f"{min(of['most_mpps'], of['rate_share'] * line_mpps):.4f} Mpps",
            "traffic.sizes.fixed": size,
            "run.warmup": of["warmup"],
            "run.packets": of["packets"],
        }
        if case in of["descriptors"]:
            settings["nic.rx_descriptors"] = of["descriptors"][case]
        if case in of["mbufs"]:
            settings["mempool.size"] = of["mbufs"][case]
        ways = of["io_ways"].get(case) if io_ways is None else io_ways
        if ways is not None:
            settings["machine.llc.core_ways"] = (1 << WAYS - ways) - 1
            settings["machine.llc.io_ways"] = (1 << WAYS) - (1 << WAYS - ways)
        key = self._request.kept.key([self._request.paper.file("pipeline.toml"), settings, self._request.seed])
        kept = self._request.kept.get(key)
        if kept is None:
            overload = {k: v for k, v in settings.items() if k != "traffic.packet_rate"}
            overload["traffic.packet_rate"] = settings["traffic.packet_rate"]
            seen = api.run(
                f"{of['scenario']}", set={**overload, "traffic.load": None} if False else overload,
                seed=self._request.seed, threads=1,
            ).summary
            self._request.kept.add(key, kept := {"case": case, "size": size, "io_ways": ways, **_seen(seen, size)})
        self._request.progress("simulated points", len(self._points) + 1, self._expected(), f"{case}, {size} B")
        return dict(kept)
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
