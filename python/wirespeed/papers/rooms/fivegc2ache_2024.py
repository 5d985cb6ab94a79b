"""5GC2ache: DMA leakage by equation 1, beside a form that knows sets and ways, and the simulated testbed.

Throughput is what the receiving core carries when more is offered: packets a second times the size of the frames that
arrive. What is not judged is in the room's README.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil, hypot
from typing import Any, Final, TypeAlias

import numpy as np

from wirespeed import _wirespeed, api
from wirespeed.papers import Measured, Outcome, Paper, Part, Request, fact, figures, spread

CASES: Final = ("default", "resq", "isolation5", "d512", "d256", "d128", "m16384", "m8192", "all")
ORDER: Final = ("default", "resq", "isolation5", "d512", "m16384", "all")
LARGEST: Final = 1500
WAYS: Final = 11
FRAMING_BYTES: Final = 20
"""Preamble and gap."""
BOTH: Final = (("default", "default"), ("all", "all three"))
AIMS: Final = ("no bottleneck", "balance")
"""The states that the paper's allocator is to keep: section 5.2."""
OTHERS_BYTES: Final = 500_000
"""Figure 6."""
MISSES_BY_WAYS: Final = ("rx_fall_ways", "tx_fall_ways", "rx_by_ways", "tx_by_ways")
TX_DESCRIPTORS: Final = 512
"""Assumed: with 1024, transmit rings of six workers hold 12288 mbufs, and 8192, which the paper runs, stand still."""

Point: TypeAlias = dict[str, Any]


class Testbed:
    """The simulated testbed; each point is simulated once."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._of = request.parameters("pipeline.toml")
        self._points: dict[tuple[object, ...], Point] = {}
        self.sizes: list[int] = self._of["sizes"]
        self.ways: list[int] = self._of["ways"]
        self.bursts: dict[str, Any] = self._of["bursts"]
        self.descriptors: list[int] = self.bursts["descriptors"]
        self.allocator_seeds: int = self._of["allocator"]["seeds"]
        self._in_all = len(CASES) + 2 * (len(self.sizes) - 1) + 2 * len(self.ways) + 2 * len(self.descriptors)
        self._in_all += len(self.loads()) + 1 + 2 * self.allocator_seeds  # one of bursts with fewer mbufs

    def point(self, case: str, size: int = LARGEST, io_ways: int | None = None) -> Point:
        """The case with packets of `size` bytes; isolation with `io_ways` ways, where given, in place of its own."""
        if (case, size, io_ways) not in self._points:
            self._points[case, size, io_ways] = self._simulated(case, size, io_ways)
        return self._points[case, size, io_ways]

    def by_descriptors(self, descriptors: int, *, bursts: bool, mbufs: int | None = None) -> Point:
        """The default with so many descriptors: at overload, or offered bursts that it could carry on average.

        With `mbufs` mbufs, where given, in place of the default's.
        """
        key = ("descriptors", descriptors, bursts, mbufs)
        if key not in self._points:
            settings: dict[str, Any] = {"nic.rx_descriptors": descriptors}
            if mbufs is not None:
                settings["mempool.size"] = mbufs
            if bursts:
                of = self.bursts
                settings |= {
                    "traffic.packet_rate": of["packet_rate"],
                    "traffic.arrivals.on_off.on": of["on"],
                    "traffic.arrivals.on_off.off": of["off"],
                    "run.packets": of["packets"],
                }
            words = (
                f"{descriptors} descriptors" + (", bursts" if bursts else "") + (f", {mbufs} mbufs" if mbufs else "")
            )
            self._points[key] = {
                "case": "bursts" if bursts else "overload",
                "descriptors": descriptors,
                **self._run(LARGEST, settings, words),
            }
        return self._points[key]

    def occupancy(self, mbps: float) -> Point:
        """Who has the LLC in MiB after a time of `mbps` Mbit/s, beside a control plane; as a real profiler reads it."""
        key = ("occupancy", mbps)
        if key not in self._points:
            of = self._of["occupancy"]
            mpps = mbps / (8 * LARGEST)
            settings: dict[str, Any] = {
                "traffic.packet_rate": f"{mpps:.9f} Mpps",
                "run.warmup": 0,
                # A little more than the time takes.
                "run.packets": max(int(1.05e6 * mpps * of["seconds"]), 1000),
                "policy.kind": "shared",
                "policy.interval": f"{of['seconds']} s",
                "neighbours": [{"working_set": of["working_set"], "every": of["every"]}],
            }
            seen = self._run(LARGEST, settings, f"{mbps:g} Mbit/s for {of['seconds']} s")
            self._points[key] = {"case": "occupancy", "mbps": mbps, **seen}
        return self._points[key]

    def steered(self, place: int = 0, case: str = "default") -> Point:
        """The allocator at constant load, of rings and pool of a case, with one of some seeds; with its intervals."""
        key = ("steered", case, place)
        if key not in self._points:
            of = self._of["allocator"]
            settings = {
                **self._rings(case),
                "policy.kind": "allocator",
                "policy.interval": of["interval"],
                "run.packets": of["packets"],
            }
            words = f"{case}, allocator, constant load, seed {place}"
            seen = self._run(LARGEST, settings, words, self._request.seed + place)
            self._points[key] = {"case": f"{case}, allocator", **seen}
        return self._points[key]

    def loads(self) -> list[float]:
        """Of figure 6, in Mbit/s, rising."""
        return [float(mbps) for mbps in self._of["occupancy"]["mbps"]]

    def sizes_of_a_trace(self) -> Mapping[str, float]:
        """The packets of each class of sizes, as shares, and under `bytes` the bytes of full-sized ones."""
        of = self._of["trace"]
        summary = api.run(
            of["scenario"], set={"run.packets": 100_000, "run.curve": []}, seed=self._request.seed
        ).summary
        shares = {each["name"]: each["packets"] / summary["packets"] for each in summary["classes"]}
        mean = summary["traffic"]["mean_frame_bytes"]
        large = sum(shares.get(name, 0.0) for name in of["large"])
        small = sum(shares.get(name, 0.0) for name in of["small"])
        return {"small": small, "large": large, "large_bytes": large * LARGEST / mean}

    def points(self) -> list[Point]:
        """All that were simulated; of the allocator's without its intervals, which are figure 12."""
        return [{name: value for name, value in point.items() if name != "steered"} for point in self._points.values()]

    def allocated(self, size: int) -> int:
        """The I/O ways that the allocator gives packets of `size` bytes, as far as the paper says."""
        return int(self._of["allocated"].get(str(size), self._of["io_ways"]["all"]))

    def _simulated(self, case: str, size: int, io_ways: int | None) -> Point:
        settings = self._rings(case)
        ways = self._of["io_ways"].get(case) if io_ways is None else io_ways
        if ways is not None:
            settings["machine.llc.core_ways"] = WAYS - ways
            settings["machine.llc.io_ways"] = ways
        seen = self._run(size, settings, f"{case}, {size} B")
        return {"case": case, "packet_bytes": size, "io_ways": ways, **seen}

    def _rings(self, case: str) -> dict[str, Any]:
        """Descriptors and mbufs of a case, where they are not the default's."""
        names = {"descriptors": "nic.rx_descriptors", "mbufs": "mempool.size"}
        return {name: self._of[key][case] for key, name in names.items() if case in self._of[key]}

    def _run(self, size: int, changed: Mapping[str, Any], words: str, seed: int | None = None) -> Point:
        """What a run of the testbed shows; kept, and not run again."""
        seed = self._request.seed if seed is None else seed
        of = self._of
        line_mpps = 100e3 / (8 * (size + FRAMING_BYTES))
        settings: dict[str, Any] = {
            "traffic.packet_rate": f"{min(of['most_mpps'], of['rate_share'] * line_mpps):.4f} Mpps",
            "traffic.sizes.fixed": size,
            "nic.tx_descriptors": TX_DESCRIPTORS,
            "run.warmup": of["warmup"],
            "run.packets": of["packets"],
            **changed,
        }
        key = self._request.kept.key([self._request.paper.file("pipeline.toml"), settings, seed])
        seen = self._request.kept.get(key)
        if seen is None:
            run = api.run(of["scenario"], set=settings, seed=seed, threads=1)
            if run.partial:
                raise KeyboardInterrupt
            seen = _seen(run.summary, size)
            self._request.kept.add(key, seen)
        self._request.progress("points", min(len(self._points) + 1, self._in_all), self._in_all, words)
        return dict(seen)


def _seen(summary: Mapping[str, Any], size: int) -> Point:
    """What is kept of a run: throughput, its half-width, rates in percent, memory bandwidth in GB/s."""
    levels = {level["name"]: level for level in summary["levels"]}
    miss = {of["cores"]: 100 * of["miss_rate"] for of in summary["llc_by_cores"] if of["miss_rate"] is not None}
    intervals = (summary.get("policy") or {}).get("intervals") or []
    occupied: Point = {}
    if intervals:
        # At the end of its first interval, as a policy or a profiler reads it.
        *own, rest = (owner / 2**20 for owner in intervals[0]["llc_bytes"])
        occupied = {"llc_mib": sum(own), "llc_others_mib": rest}
    batches = summary["batches"]["carried_mpps"]
    if any(interval.get("state") for interval in intervals):
        occupied["steered"] = [{name: i[name] for name in ("at_ns", "io_ways", "state")} for i in intervals]
        occupied["gbps_settled"] = spread.mean(batches[len(batches) // 2 :])[0] * size * 8e-3
    return {
        **occupied,
        "gbps": summary["carried_mpps"] * size * 8e-3,
        "gbps_half_width": spread.mean(batches)[1] * size * 8e-3,
        "offered_gbps": summary["offered_mpps"] * size * 8e-3,
        "loss_pct": 100 * summary["loss"],
        "rx_miss_pct": miss.get("receiving"),
        "tx_miss_pct": miss.get("working"),
        "ddio_write_miss_pct": _percent(levels["DDIO"]["hit_rate"]),
        "memory_gb_s": summary["dram"]["bandwidth_gb_per_s"],
        "rx_busy_pct": 100 * summary["cores"][0]["busy"],
        "pool": summary["mempool"]["size"],
        **{
            f"mbufs_{state}": _mean(interval[f"mbufs_{state}"] for interval in summary["series"])
            for state in ("descriptors", "queued", "sending", "free")
        },
    }


def _percent(hit_rate: float | None) -> float | None:
    """Misses; None where nothing was looked up."""
    return None if hit_rate is None else 100 * (1 - hit_rate)


def _mean(values: Iterable[float | None]) -> float:
    """Of those that are known: in the last interval nothing may have been looked at."""
    return float(np.mean([value for value in values if value is not None]))


def measure(request: Request) -> Outcome:
    """Equation 1, and what the asked claims need of the testbed."""
    outcome = leakage(request)
    bed = Testbed(request)
    measured = dict(outcome.measured)
    measured |= cases(request, bed) | gains(request, bed) | allocated(request, bed)
    drawn = list(outcome.figures)
    measured |= ways(request, bed, drawn)
    measured |= descriptors(request, bed, drawn)
    measured |= mbufs(request, bed)
    measured |= occupancy(request, bed, drawn)
    measured |= states(request, bed, drawn)
    drawn += by_case(bed, request.paper.printed())
    if request.wants("sizes"):
        measured["sizes"] = sizes(bed)
    return Outcome(measured=measured, points=[*outcome.points, *bed.points()], figures=drawn)


def sizes(bed: Testbed) -> Measured:
    """Figure 14: of the profile that this program makes its packets from."""
    shares = bed.sizes_of_a_trace()
    return Measured(
        holds={
            "small and full-sized packets": Part(shares["small"] + shares["large"] - 0.8),
            "bytes of full-sized ones": Part(shares["large_bytes"] - 0.5),
        },
        note=f"{shares['small']:.0%} up to 576 B, {shares['large']:.0%} full-sized, "
        f"which have {shares['large_bytes']:.0%} of the bytes",
    )


def cases(request: Request, bed: Testbed) -> dict[str, Measured]:
    """Throughput, miss rates and memory bandwidth of each case, beside the default's."""
    measured: dict[str, Measured] = {}
    for case in CASES:
        if request.wants(f"gbps_{case}"):
            point = bed.point(case)
            measured[f"gbps_{case}"] = Measured(
                point["gbps"],
                point["gbps_half_width"],
                holds=None if case == "default" else _faster(bed, "default", case),
            )
        for claim, column in (
            (f"rx_miss_{case}", "rx_miss_pct"),
            (f"tx_miss_{case}", "tx_miss_pct"),
            (f"memory_{case}", "memory_gb_s"),
        ):
            if request.wants(claim):
                found = bed.point(case)[column]
                less = None if case == "default" else Part(bed.point("default")[column] - found)
                measured[claim] = Measured(found, holds=less)
        if request.wants(f"ddio_{case}"):
            ddio = bed.point(case)["ddio_write_miss_pct"]
            fewer = Part(bed.point("d512")["ddio_write_miss_pct"] - ddio) if case.startswith("m") else None
            measured[f"ddio_{case}"] = Measured(ddio, holds=fewer)
    if request.wants("order"):
        measured["order"] = Measured(holds={f"{a} < {b}": _faster(bed, a, b) for a, b in pairwise(ORDER)})
    if request.wants("starving"):
        measured["starving"] = Measured(holds=_faster(bed, "m8192", "m16384"))
    return measured


def gains(request: Request, bed: Testbed) -> dict[str, Measured]:
    """Gains of all three by packet size and over ResQ, and what ResQ saves of memory bandwidth."""
    measured: dict[str, Measured] = {}
    for size in bed.sizes:
        if request.wants(f"gain_{size}"):
            measured[f"gain_{size}"] = _gain(bed.point("all", size, bed.allocated(size)), bed.point("default", size))
    if request.wants("over_resq"):
        measured["over_resq"] = _gain(_settled(bed, "all"), bed.point("resq"))
    if request.wants("memory_drop"):
        drop = 100 * (1 - bed.point("resq")["memory_gb_s"] / bed.point("default")["memory_gb_s"])
        measured["memory_drop"] = Measured(drop, holds=Part(drop))
    return measured


def allocated(request: Request, bed: Testbed) -> dict[str, Measured]:
    """Throughput with the allocator itself, once it has looked for its ways, over some seeds."""
    measured: dict[str, Measured] = {}
    for case, claim in (("default", "gbps_allocator"), ("all", "gbps_all_allocator")):
        if request.wants(claim):
            point = _settled(bed, case)
            than = bed.point("default")
            wide = hypot(point["gbps_half_width"], than["gbps_half_width"])
            ways = ", ".join(str(usual) for usual in point["usual_ways"])
            holds = Part(point["gbps"] - than["gbps"], wide)
            measured[claim] = Measured(
                point["gbps"], point["gbps_half_width"], holds=holds, note=f"with {ways} I/O ways most of the time"
            )
    return measured


def _settled(bed: Testbed, case: str) -> Point:
    """Throughput of the second half of a run with the allocator, over seeds, and its usual ways with each."""
    runs = [bed.steered(place, case) for place in range(bed.allocator_seeds)]
    gbps, wide = spread.mean([run["gbps_settled"] for run in runs])
    usual = [_rests(run["steered"])[2] for run in runs]
    return {"gbps": gbps, "gbps_half_width": wide, "usual_ways": usual}


def _gain(better: Point, than: Point) -> Measured:
    """Of throughput, in percent."""
    ratio = better["gbps"] / than["gbps"]
    wide = 100 * ratio * hypot(*(point["gbps_half_width"] / point["gbps"] for point in (better, than)))
    return Measured(100 * (ratio - 1), wide, holds=Part(100 * (ratio - 1), wide))


def _faster(bed: Testbed, slow: str, fast: str) -> Part:
    """That one case carries more than another."""
    a, b = bed.point(slow), bed.point(fast)
    return Part(b["gbps"] - a["gbps"], hypot(a["gbps_half_width"], b["gbps_half_width"]))


def ways(request: Request, bed: Testbed, drawn: list[figures.Figure]) -> dict[str, Measured]:
    """The best number of I/O ways in isolation, by packet size."""
    measured: dict[str, Measured] = {}
    best: dict[int, tuple[int, int]] = {}
    for size in (LARGEST, 256):
        if not (request.wants(f"ways_{size}") or request.wants("ways_fall")):
            continue
        points = {ways: bed.point("default", size, ways) for ways in bed.ways}
        gbps = {ways: point["gbps"] for ways, point in points.items()}
        best[size] = number, plateau = _best(points)
        measured[f"ways_{size}"] = Measured(
            float(number),
            float(plateau),
            holds=Part(min(number - bed.ways[0], bed.ways[-1] - number)),
            note=f"{min(gbps.values()):.2f} to {max(gbps.values()):.2f} Gbit/s over all way counts; ± is how far "
            "others lie that cannot be told apart",
        )
        drawn.append(_by_ways(gbps, size, request.paper.printed()))
    if any(request.wants(claim) for claim in MISSES_BY_WAYS):
        measured |= misses_by_ways(request, bed, drawn)
    if request.wants("ways_fall"):
        (large, large_wide), (small, small_wide) = best[LARGEST], best[256]
        measured["ways_fall"] = Measured(holds=Part(large - small, hypot(large_wide, small_wide)))
    return measured


def misses_by_ways(request: Request, bed: Testbed, drawn: list[figures.Figure]) -> dict[str, Measured]:
    """Figures 19(b) and (c): miss rates by the number of I/O ways in isolation, and how far below shared ways."""
    shared, by = bed.point("default"), {ways: bed.point("default", LARGEST, ways) for ways in bed.ways}
    measured: dict[str, Measured] = {}
    for core in ("rx", "tx"):
        column = f"{core}_miss_pct"
        fall = 100 * (1 - by[5][column] / shared[column])
        told = ", ".join(f"{ways}: {point[column]:.1f} %" for ways, point in by.items())
        measured[f"{core}_fall_ways"] = Measured(fall, holds=Part(fall), note=f"shared: {shared[column]:.1f} %, {told}")
    rx, tx = ([by[ways][f"{core}_miss_pct"] for ways in bed.ways] for core in ("rx", "tx"))
    measured["rx_by_ways"] = Measured(holds=Part(by[2]["rx_miss_pct"] - by[5]["rx_miss_pct"]))
    measured["tx_by_ways"] = Measured(
        holds={
            "5 has not the lowest": Part(by[5]["tx_miss_pct"] - min(tx)),
            "more than with 2": Part(by[5]["tx_miss_pct"] - by[2]["tx_miss_pct"]),
        }
    )
    rows = [
        {"ways": ways, "pct": pct, "of": words}
        for words, column in (("RX core", rx), ("TX cores", tx))
        for ways, pct in zip(bed.ways, column, strict=True)
    ]
    printed = request.paper.printed()
    cases = ((2, "resq"), (5, "isolation5"))
    theirs = [
        {"ways": ways, "pct": printed[f"{core}_miss_{case}"], "of": words}
        for core, words in (("rx", "RX core"), ("tx", "TX cores"))
        for ways, case in cases
    ]
    chart = figures.lines(
        rows, x="ways", y="pct", by="of", x_title="I/O ways", y_title="LLC misses (%)", printed=theirs
    )
    drawn.append(figures.Figure("fig19b", "Figures 19(b) and (c): LLC misses by I/O ways in isolation, 1500 B", chart))
    return measured


def _best(points: Mapping[int, Point]) -> tuple[int, int]:
    """The fastest number of ways, and how far from it others lie that are as fast within the half-widths."""
    best = max(points, key=lambda ways: points[ways]["gbps"])
    top = points[best]
    alike = [
        ways
        for ways, point in points.items()
        if top["gbps"] - point["gbps"] <= hypot(top["gbps_half_width"], point["gbps_half_width"])
    ]
    return best, max(abs(ways - best) for ways in alike)


def descriptors(request: Request, bed: Testbed, drawn: list[figures.Figure]) -> dict[str, Measured]:
    """Loss of bursts by descriptors, and how many a configurator with a loss limit takes."""
    measured: dict[str, Measured] = {}
    claims = ("loss_128", "loss_256", "loss_4096", "loss_falls", "descriptors_chosen", "descriptors_inside")
    if request.wants("loss_m16384"):
        fewer, more = (bed.by_descriptors(512, bursts=True, mbufs=n)["loss_pct"] for n in (16384, None))
        measured["loss_m16384"] = Measured(
            fewer, holds=Part(1.05 * more + 0.01 - fewer), note=f"{more:.2g} % with 262140 mbufs"
        )
    if not any(request.wants(claim) for claim in claims):
        return measured
    printed = request.paper.printed()
    loss = {n: bed.by_descriptors(n, bursts=True)["loss_pct"] for n in bed.descriptors}
    for n in (128, 256):
        measured[f"loss_{n}"] = Measured(loss[n], holds=Part(loss[n] - loss[512]))
    measured["loss_4096"] = Measured(holds=Part(0.1 - loss[4096]), note=f"{loss[4096]:.2g} %")
    measured["loss_falls"] = Measured(
        # Below nothing is nothing.
        holds={f"{a} and {b}": Part(loss[a] - loss[b]) for a, b in pairwise(sorted(loss)) if loss[a] > 0},
        note=", ".join(f"{n}: {lost:.2g} %" for n, lost in sorted(loss.items())),
    )
    if request.wants("descriptors_chosen") or request.wants("descriptors_inside"):
        overload = {n: bed.by_descriptors(n, bursts=False)["gbps"] for n in bed.descriptors}
        allowed = [n for n in bed.descriptors if loss[n] <= bed.bursts["limit_pct"]]
        chosen = max(allowed, key=lambda n: overload[n], default=max(bed.descriptors))
        inside = fact(min(bed.descriptors) < chosen < max(bed.descriptors))
        measured["descriptors_chosen"] = Measured(
            float(chosen), holds=inside, note=", ".join(f"{n}: {g:.1f} Gbit/s" for n, g in sorted(overload.items()))
        )
        measured["descriptors_inside"] = Measured(holds=inside)
        points = [{"load": "overload", "descriptors": n, "gbps": g} for n, g in overload.items()]
        told = {"gbps_d256": 256, "gbps_d512": 512, "gbps_default": 4096}
        chart = figures.lines(
            points,
            x="descriptors",
            y="gbps",
            by="load",
            x_title="receive descriptors",
            y_title="Gbit/s",
            log_x=True,
            printed=[{"load": "overload", "descriptors": n, "gbps": printed[claim]} for claim, n in told.items()],
        )
        drawn.append(figures.Figure("fig17a", "Figure 17(a): throughput by the number of descriptors", chart))
    points = [{"load": "bursts", "descriptors": n, "loss_pct": lost} for n, lost in loss.items()]
    chart = figures.lines(
        points,
        x="descriptors",
        y="loss_pct",
        by="load",
        x_title="receive descriptors",
        y_title="loss (%)",
        log_x=True,
        printed=[{"load": "bursts", "descriptors": n, "loss_pct": printed[f"loss_{n}"]} for n in (128, 256)],
    )
    drawn.append(figures.Figure("fig17b", "Figures 9(c), 17(b): packet loss by the number of descriptors", chart))
    return measured


def mbufs(request: Request, bed: Testbed) -> dict[str, Measured]:
    """Equation 2: where the pool's mbufs are."""
    measured: dict[str, Measured] = {}
    states = ("mbufs_descriptors", "mbufs_queued", "mbufs_sending", "mbufs_free")
    if request.wants("mbufs_add_up"):
        cases = ("d512", "m16384", "m8192")
        measured["mbufs_add_up"] = Measured(
            holds={
                case: fact(abs(sum(bed.point(case)[state] for state in states) - bed.point(case)["pool"]) < 1e-6)
                for case in cases
            },
            note="; ".join(
                f"{bed.point(case)['pool']}: " + ", ".join(f"{bed.point(case)[s]:.0f} {s[6:]}" for s in states)
                for case in cases
            ),
        )
    if request.wants("mbufs_empty"):
        less, more = bed.point("m8192"), bed.point("m16384")
        measured["mbufs_empty"] = Measured(
            holds={
                "empty": Part(more["mbufs_free"] - less["mbufs_free"]),
                "in descriptors": Part(less["mbufs_descriptors"] - 0.95 * more["mbufs_descriptors"]),
            }
        )
    return measured


def occupancy(request: Request, bed: Testbed, drawn: list[figures.Figure]) -> dict[str, Measured]:
    """Figure 6: what the user plane and all others have of the LLC, by load."""
    claims = ("occupancy_low", "occupancy_high", "occupancy_rises", "occupancy_others")
    if not any(request.wants(claim) for claim in claims):
        return {}
    upf, others = {}, {}
    for mbps in bed.loads():
        point = bed.occupancy(mbps)
        upf[mbps], others[mbps] = point["llc_mib"], point["llc_others_mib"]
    rows = [
        {"mbps": mbps, "who": who, "mib": mib}
        for who, of in (("user plane", upf), ("others", others))
        for mbps, mib in of.items()
    ]
    printed = request.paper.printed()
    ends = {5: printed["occupancy_low"], 5000: printed["occupancy_high"]}
    theirs = [{"mbps": mbps, "who": "user plane", "mib": mib} for mbps, mib in ends.items()]
    chart = figures.lines(
        rows, x="mbps", y="mib", by="who", x_title="Mbit/s", y_title="LLC, MiB", log_x=True, printed=theirs
    )
    drawn.append(figures.Figure("fig6", "Figure 6: occupancy of the LLC by load", chart))
    low, high = bed.loads()[0], bed.loads()[-1]
    told = ", ".join(f"{mbps:g}: {mib:.3g} MiB" for mbps, mib in upf.items())
    return {
        "occupancy_low": Measured(upf[low], holds=Part(upf[high] - upf[low]), note=told),
        "occupancy_high": Measured(upf[high], holds=Part(upf[high] - upf[low])),
        "occupancy_rises": Measured(
            holds={f"{a:g} < {b:g}": Part(upf[b] - upf[a]) for a, b in pairwise(sorted(upf))}, note=told
        ),
        "occupancy_others": Measured(
            holds={f"{mbps:g} Mbit/s": Part(OTHERS_BYTES - mib * 2**20) for mbps, mib in others.items()},
            note=", ".join(f"{mbps:g}: {1024 * mib:.0f} KiB" for mbps, mib in others.items()),
        ),
    }


def states(request: Request, bed: Testbed, drawn: list[figures.Figure]) -> dict[str, Measured]:
    """Figure 12: the state machine aims at two of its four states, and stays in them while traffic stays."""
    if not request.wants("rests"):
        return {}
    runs = [bed.steered(place)["steered"] for place in range(bed.allocator_seeds)]
    rested = [_rests(intervals) for intervals in runs]
    aims, often = (spread.mean([seen[column] for seen in rested]) for column in (0, 1))
    rows = [{"ms": each["at_ns"] / 1e6, "ways": each["io_ways"], "of": "I/O ways"} for each in runs[0]]
    chart = figures.lines(rows, x="ms", y="ways", by="of", x_title="simulated time (ms)", y_title="I/O ways")
    drawn.append(figures.Figure("fig12", "Figure 12: the allocator at constant load, from two ways", chart))
    return {
        "rests": Measured(
            holds={
                "no bottleneck or balance": Part(aims[0] - 0.8, aims[1]),
                "one number of ways": Part(often[0] - 0.8, often[1]),
            },
            note=f"{len(runs)} seeds at one constant overload: of the second half "
            f"{100 * aims[0]:.0f} ± {100 * aims[1]:.0f} % in these states, {100 * often[0]:.0f} ± "
            f"{100 * often[1]:.0f} % with one number of ways ({', '.join(str(ways) for *_, ways in rested)})",
        )
    }


def _rests(intervals: Sequence[Mapping[str, Any]]) -> tuple[float, float, int]:
    """Of the second half, the shares in the two states and with the usual number of ways, and that number."""
    last = intervals[len(intervals) // 2 :]
    ways = [each["io_ways"] for each in last]
    usual = max(set(ways), key=ways.count)
    return sum(each["state"] in AIMS for each in last) / len(last), ways.count(usual) / len(last), usual


def by_case(bed: Testbed, printed: Mapping[str, float]) -> list[figures.Figure]:
    """Figures 9(a), 10, 15, 16 and 18, of what was simulated for claims in any case, with what the paper prints."""
    drawn: list[figures.Figure] = []
    seen = {
        (point["case"], point["packet_bytes"]): point
        for point in bed.points()
        # Isolation of the default with other ways is figures 11 and 19.
        if "packet_bytes" in point and (point["case"] != "default" or point["io_ways"] is None)
    }

    def of(case: str) -> Point | None:
        return seen.get((case, LARGEST))

    def draw(name: str, caption: str, rows: list[Point], **axes: Any) -> None:
        if len(rows) > 1:
            drawn.append(figures.Figure(name, caption, figures.lines(rows, **axes)))

    def theirs(claims: Mapping[str, tuple[float, str]], x: str, y: str) -> list[dict[str, Any]]:
        return [{x: at, y: printed[claim], "of": of} for claim, (at, of) in claims.items()]

    rows = [
        {"descriptors": n, "gb_s": point["memory_gb_s"], "of": "memory"}
        for n, case in ((128, "d128"), (256, "d256"), (512, "d512"), (4096, "default"))
        if (point := of(case))
    ]
    axes = {"x": "descriptors", "x_title": "receive descriptors", "log_x": True, "by": "of"}
    both = {"memory_d128": (128, "memory"), "memory_default": (4096, "memory")}
    axes["printed"] = theirs(both, "descriptors", "gb_s")
    draw("fig9a", "Figure 9(a): memory bandwidth by descriptors", rows, y="gb_s", y_title="GB/s", **axes)
    pools = [point for case in ("m8192", "m16384", "d512") if (point := of(case))]
    axes = {"x": "mbufs", "x_title": "mbufs", "log_x": True, "by": "of"}
    rows = [{"mbufs": p["pool"], "pct": p["ddio_write_miss_pct"], "of": "DDIO write misses"} for p in pools]
    rows += [{"mbufs": p["pool"], "pct": p["rx_miss_pct"], "of": "LLC misses, RX core"} for p in pools]
    sizes = {"m8192": 8192, "m16384": 16384, "d512": 262140}
    misses: dict[str, tuple[float, str]] = {f"ddio_{c}": (n, "DDIO write misses") for c, n in sizes.items()}
    misses |= {f"rx_miss_{case}": (sizes[case], "LLC misses, RX core") for case in ("m16384", "d512")}
    axes["printed"] = theirs(misses, "mbufs", "pct")
    draw("fig10a", "Figures 10(a), 18(c): misses by mbufs, 512 descriptors", rows, y="pct", y_title="%", **axes)
    rows = [{"mbufs": p["pool"], "gbps": p["gbps"], "of": "512 descriptors"} for p in pools]
    axes["printed"] = theirs({f"gbps_{c}": (n, "512 descriptors") for c, n in sizes.items()}, "mbufs", "gbps")
    draw("fig18a", "Figures 10(b), 18(a): throughput by mbufs", rows, y="gbps", y_title="Gbit/s", **axes)
    rows = [
        {"mbufs": p["pool"], "n": p[f"mbufs_{state}"], "of": state}
        for p in pools
        for state in ("descriptors", "queued", "sending", "free")
    ]
    axes = {"x": "mbufs", "x_title": "mbufs of the pool", "log_x": True, "log_y": True, "by": "of"}
    draw("fig10c", "Figure 10(c): where the mbufs are, 512 descriptors", rows, y="n", y_title="mbufs", **axes)
    rows, told = _in_order(of, printed)
    words = "1 default, 2 ResQ, 3 isolation 5, 4 512 descriptors, 5 and 16384 mbufs, 6 all three"
    axes = {"x": "step", "x_title": words, "by": "of", "printed": told}
    draw(
        "fig15", "Figure 15: throughput and misses of the cases", rows, y="value", y_title="Gbit/s; of misses %", **axes
    )
    rows = [
        {"bytes": size, "gbps": seen[case, size]["gbps"], "of": words}
        for size in bed.sizes
        for case, words in BOTH
        if (case, size) in seen and size != LARGEST
    ]
    rows += [{"bytes": LARGEST, "gbps": p["gbps"], "of": w} for c, w in BOTH if rows and (p := of(c))]
    axes = {"x": "bytes", "x_title": "bytes", "log_x": True, "by": "of"}
    draw("fig16", "Figure 16: throughput by packet size", rows, y="gbps", y_title="Gbit/s", **axes)
    return drawn


def _in_order(of: Callable[[str], Point | None], printed: Mapping[str, float]) -> tuple[list[Point], list[Point]]:
    """Throughput and misses of the cases in their order: what came out here, and what the paper prints."""
    columns = {"gbps": "Gbit/s", "rx_miss": "LLC misses, RX core (%)", "tx_miss": "LLC misses, TX cores (%)"}
    ours, theirs = [], []
    for step, case in enumerate(ORDER, 1):
        point = of(case)
        for column, words in columns.items():
            if point:
                value = point["gbps" if column == "gbps" else f"{column}_pct"]
                ours.append({"step": step, "value": value, "of": words})
            if (claim := f"{column}_{case}") in printed:
                theirs.append({"step": step, "value": printed[claim], "of": words})
    return ours, theirs


def _by_ways(gbps: dict[int, float], size: int, printed: Mapping[str, float]) -> figures.Figure:
    points = [{"case": "isolation", "ways": ways, "gbps": value} for ways, value in gbps.items()]
    # ResQ is isolation with two ways. Of other sizes the paper prints no throughput.
    both = {2: printed["gbps_resq"], 5: printed["gbps_isolation5"]} if size == LARGEST else {}
    theirs = [{"case": "isolation", "ways": ways, "gbps": value} for ways, value in both.items()]
    chart = figures.lines(points, x="ways", y="gbps", by="case", x_title="I/O ways", y_title="Gbit/s", printed=theirs)
    name, where = ("fig19a", "19(a)") if size == LARGEST else ("fig11", "11")
    return figures.Figure(name, f"Figure {where}: throughput by I/O ways in isolation, {size} B", chart)


def leakage(request: Request) -> Outcome:
    """Leakage over the number of descriptors, in per cent."""
    of = request.parameters("leakage.toml")
    packet, io_bytes, server = float(of["packet_bytes"]), int(of["io_bytes"]), of["server"]
    printed = request.paper.printed()
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
    falls = {f"{a} and {b}": Part(by_equation[b] - by_equation[a]) for a, b in pairwise(counts)}
    chart = figures.lines(
        points,
        x="descriptors",
        y="leakage_pct",
        by="model",
        x_title="receive descriptors",
        y_title="DMA leakage (%)",
        log_x=True,
        printed=[
            {"model": "equation 1", "descriptors": n, "leakage_pct": printed[f"leakage_{n}"]} for n in (128, 4096)
        ],
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
    authors="",
    venue="",
    year=2024,
    doi="",
    readings={"literal": "6 MiB of I/O ways in equation 1; throughput is what is carried at overload"},
    measure=measure,
)
