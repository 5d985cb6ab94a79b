"""5GC2ache: DMA leakage by equation 1, beside a form that knows sets and ways, and the simulated testbed.

Throughput is what the receiving core carries when more is offered: packets a second times the size of the frames that
arrive. What is not judged is in the room's README.
"""

from __future__ import annotations

from collections.abc import Mapping
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
TX_DESCRIPTORS: Final = 512
"""Assumed: with 1024, transmit rings of six workers hold 12288 mbufs, and 8192, which the paper runs, stand still."""

Point: TypeAlias = dict[str, Any]


class Testbed:
    """The simulated testbed; each point is simulated once."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._of = request.parameters("pipeline.toml")
        self._points: dict[tuple[str, int, int | None], Point] = {}
        self.sizes: list[int] = self._of["sizes"]
        self.ways: list[int] = self._of["ways"]
        self._in_all = len(CASES) + 2 * (len(self.sizes) - 1) + len(self.ways)

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
            "nic.tx_descriptors": TX_DESCRIPTORS,
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
        seen = self._request.kept.get(key)
        if seen is None:
            run = api.run(of["scenario"], set=settings, seed=self._request.seed, threads=1)
            if run.partial:
                raise KeyboardInterrupt
            seen = _seen(run.summary, size)
            self._request.kept.add(key, seen)
        self._request.progress("points", len(self._points) + 1, self._in_all, f"{case}, {size} B")
        return {"case": case, "packet_bytes": size, "io_ways": ways, **seen}


def _seen(summary: Mapping[str, Any], size: int) -> Point:
    """What is kept of a run: throughput, its half-width, rates in percent, memory bandwidth in GB/s."""
    levels = {level["name"]: level for level in summary["levels"]}
    miss = {of["cores"]: 100 * of["miss_rate"] for of in summary["llc_by_cores"]}
    return {
        "gbps": summary["carried_mpps"] * size * 8e-3,
        "offered_gbps": summary["offered_mpps"] * size * 8e-3,
        "loss_pct": 100 * summary["loss"],
        "rx_miss_pct": miss.get("receiving"),
        "tx_miss_pct": miss.get("working"),
        "ddio_write_miss_pct": 100 * (1 - levels["DDIO"]["hit_rate"]),
        "memory_gb_s": summary["dram"]["bandwidth_gb_per_s"],
        "rx_busy_pct": 100 * summary["cores"][0]["busy"],
    }


def measure(request: Request) -> Outcome:
    """Equation 1, and what the asked claims need of the testbed."""
    outcome = leakage(request)
    bed = Testbed(request)
    measured = dict(outcome.measured)
    for case in CASES:
        if request.wants(f"gbps_{case}"):
            measured[f"gbps_{case}"] = Measured(bed.point(case)["gbps"], holds=_is_faster(bed, case))
        for claim, column in (
            (f"rx_miss_{case}", "rx_miss_pct"),
            (f"tx_miss_{case}", "tx_miss_pct"),
            (f"memory_{case}", "memory_gb_s"),
        ):
            if request.wants(claim):
                is_less = case == "default" or bed.point(case)[column] < bed.point("default")[column]
                measured[claim] = Measured(bed.point(case)[column], holds=case != "default" and is_less)
        if request.wants(f"ddio_{case}"):
            ddio = bed.point(case)["ddio_write_miss_pct"]
            fewer_mbufs = case.startswith("m") and ddio < bed.point("d512")["ddio_write_miss_pct"]
            measured[f"ddio_{case}"] = Measured(ddio, holds=fewer_mbufs)
    if request.wants("order"):
        measured["order"] = Measured(
            holds={f"{a} < {b}": bed.point(a)["gbps"] < bed.point(b)["gbps"] for a, b in pairwise(ORDER)}
        )
    if request.wants("starving"):
        measured["starving"] = Measured(holds=bed.point("m8192")["gbps"] < bed.point("m16384")["gbps"])
    for size in bed.sizes:
        if request.wants(f"gain_{size}"):
            best = bed.point("all", size, bed.allocated(size))
            gain = 100 * (best["gbps"] / bed.point("default", size)["gbps"] - 1)
            measured[f"gain_{size}"] = Measured(gain, holds=gain > 0)
    drawn = list(outcome.figures)
    if request.wants("ways_1500"):
        by_ways = {ways: bed.point("default", LARGEST, ways)["gbps"] for ways in bed.ways}
        best_ways = max(by_ways, key=lambda ways: by_ways[ways])
        measured["ways_1500"] = Measured(
            float(best_ways),
            holds=bed.ways[0] < best_ways < bed.ways[-1],
            note=f"{min(by_ways.values()):.2f} to {max(by_ways.values()):.2f} Gbit/s over all way counts",
        )
        drawn.append(_by_ways(by_ways))
    return Outcome(measured=measured, points=[*outcome.points, *bed.points()], figures=drawn)


def _is_faster(bed: Testbed, case: str) -> bool:
    return case != "default" and bed.point(case)["gbps"] > bed.point("default")["gbps"]


def _by_ways(gbps: dict[int, float]) -> figures.Figure:
    points = [{"case": "isolation", "ways": ways, "gbps": value} for ways, value in gbps.items()]
    chart = figures.lines(points, x="ways", y="gbps", by="case", x_title="I/O ways", y_title="Gbit/s")
    return figures.Figure("fig19a", "Figure 19(a): throughput by I/O ways in isolation", chart)


def leakage(request: Request) -> Outcome:
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
    readings={"literal": "6 MiB of I/O ways in equation 1; throughput is what is carried at overload"},
    measure=measure,
)
