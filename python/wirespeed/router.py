"""The router that runs, what this machine's GPU offers to it, and its delay against its throughput."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from rich.table import Table

from wirespeed import _wirespeed, quantities

_WAY: Final = ("mode", "threads", "commit", "warps_per_core")


def run(**settings: Any) -> dict[str, Any]:
    """Routes packets; settings as `wirespeed router run` has them, with underscores.

    `mpps` is its rate: a number of Mpps, or a text with a unit. Returns the report: packets, forwarded, dropped by
    reason, ports, mpps, gbps (L2), wall_s, run_s, cpu_s, and delay in microseconds where packets had a schedule; of two
    backends under `split` what each was given (packets, share, s_per_packet in seconds) and why one failed.
    `stopped` says that Ctrl-C ended it. Raises InputError for settings, files or a GPU that cannot be used.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    for path in ("capture", "table", "rules", "patterns", "out"):
        if path in given:
            given[path] = str(given[path])
    routed: dict[str, Any] = json.loads(_wirespeed.route(json.dumps(given)))
    return routed


def probe(driver: str | None = None) -> dict[str, Any]:
    """What this machine's GPU offers, under `gpu`; None there, and why under `reason`, if none can be used."""
    found: dict[str, Any] = json.loads(_wirespeed.probe_gpu(driver))
    return found


def bench(each: Callable[[dict[str, Any]], bool], **settings: Any) -> dict[str, Any]:
    """Measures delay against throughput, and gives each point as soon as it is there; False from `each` ends it."""
    given = {name: value for name, value in settings.items() if value is not None}
    for path in ("capture", "table", "rules", "patterns"):
        if path in given:
            given[path] = str(given[path])
    done: dict[str, Any] = json.loads(_wirespeed.bench_router(json.dumps(given), lambda text: each(json.loads(text))))
    return done


def tables(routed: Mapping[str, Any]) -> Iterator[Table]:
    """A report for people."""
    shown = Table(title=f"Routed by {routed['backend']}", show_header=False)
    shown.add_column("what")
    shown.add_column("value", justify="right")
    for label, value in _rows(routed):
        shown.add_row(label, value)
    yield shown
    if routed["dropped"]:
        dropped = Table(title="Dropped")
        dropped.add_column("reason")
        dropped.add_column("packets", justify="right")
        dropped.add_column("share", justify="right")
        for reason, count in sorted(routed["dropped"].items(), key=lambda item: -item[1]):
            dropped.add_row(reason, f"{count:,}", f"{100 * count / routed['packets']:.2f} %")
        yield dropped
    if routed.get("chain"):
        yield chain_table(routed["chain"])
    if routed.get("split"):
        yield split_table(routed["split"])


def chain_table(shares: list[dict[str, Any]]) -> Table:
    """What each member of a chain has done, for people."""
    shown = Table(title="By function")
    shown.add_column("function")
    timed = all(share["time_ns"] is not None for share in shares)
    whole = sum(share["time_ns"] or 0 for share in shares)
    for name in ("packets", "dropped", "share", *(("time", "ns a packet") if timed else ())):
        shown.add_column(name, justify="right")
    for share in shares:
        lost = share["dropped"] / share["packets"] if share["packets"] else 0
        cells = [share["name"], f"{share['packets']:,}", f"{share['dropped']:,}", f"{100 * lost:.2f} %"]
        if timed:
            cells.append(f"{100 * share['time_ns'] / whole if whole else 0:.1f} %")
            cells.append(f"{share['time_ns'] / share['packets'] if share['packets'] else 0:,.1f}")
        shown.add_row(*cells)
    return shown


def split_table(shares: list[dict[str, Any]]) -> Table:
    """What each of several backends was given, for people."""
    shown = Table(title="By backend")
    shown.add_column("backend")
    for name in ("packets", "share", "batches", "to try it", "ns a packet", "done by others", "lost"):
        shown.add_column(name, justify="right")
    for own in shares:
        seconds = own["s_per_packet"]
        shown.add_row(
            own["backend"],
            f"{own['packets']:,}",
            f"{100 * own['share']:.2f} %",
            f"{own['batches']:,}",
            f"{own['explored']:,}",
            "-" if seconds is None else f"{1e9 * seconds:,.1f}",
            f"{own['redone']:,}",
            f"{own['lost']:,}",
        )
    return shown


def _rows(routed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    v4, v6 = routed["routes"]
    yield "function", routed["function"]
    if v4 or v6:
        yield "routes", f"{v4:,} IPv4, {v6:,} IPv6"
    if routed["threads"] is not None:
        yield "workers", str(routed["threads"]) if routed["threads"] else "none: who receives works"
    if routed["queues"] > 1:
        yield "threads that receive and send", str(routed["queues"])
    yield "order", "kept" if routed["ordered"] else f"{routed['reordered']:,} packets committed late"
    yield "packets", f"{routed['packets']:,}"
    yield "forwarded", f"{routed['forwarded']:,}"
    if routed["fragments"]:
        yield "cut", f"{routed['fragmented']:,} packets, {routed['fragments']:,} frames more"
    yield "dropped", f"{sum(routed['dropped'].values()):,}"
    if routed["lost"]:
        yield "lost with a backend", f"{routed['lost']:,}"
    if routed["missed"]:
        yield "missed by the interface", f"{routed['missed']:,}"
    if routed["unsent"]:
        yield "not sent: no room, or never confirmed", f"{routed['unsent']:,}"
    yield "tasks", f"{routed['tasks']:,}, {routed['partial_tasks']:,} of them partial"
    yield "time", quantities.duration(1e9 * routed["wall_s"])
    yield (
        "CPU of all threads",
        f"{quantities.duration(1e9 * routed['cpu_s'])} in {quantities.duration(1e9 * routed['run_s'])}",
    )
    yield "rate", f"{routed['mpps']:.3f} Mpps, {routed['gbps']:.3f} Gbps (L2)"
    if routed["delay"]:
        for name in ("mean", "p50", "p99", "p999", "iqr", "max"):
            yield f"delay, {name}", quantities.duration(1e3 * routed["delay"][f"{name}_us"])


def offer_table(gpu: Mapping[str, Any]) -> Table:
    """What a GPU offers, for people."""
    shown = Table(title=gpu["name"], show_header=False)
    shown.add_column("what")
    shown.add_column("value", justify="right")
    driver, (major, minor) = gpu["driver"], gpu["capability"]
    for label, value in (
        ("CUDA of the driver", f"{driver // 1000}.{driver % 1000 // 10}"),
        ("GPUs", str(gpu["devices"])),
        ("compute capability", f"{major}.{minor}"),
        ("shader cores", str(gpu["cores"])),
        ("clock", f"{gpu['clock_mhz']:,} MHz"),
        ("memory", f"{gpu['memory'] / 2**30:.1f} GiB"),
        ("L2 cache", f"{gpu['l2'] / 2**20:.0f} MiB"),
        ("copy engines", str(gpu["copy_engines"])),
        ("shares the host's memory", "yes" if gpu["integrated"] else "no"),
        ("a display may end kernels", "yes: only the batch modes are safe" if gpu["display"] else "no"),
        ("warps a core", f"{gpu['warps_per_core']}, of chains and inspection {gpu['warps_per_core_any']}"),
    ):
        shown.add_row(label, value)
    if gpu["round_trip"]:
        for name in ("p50", "p99"):
            shown.add_row(f"a task there and back, {name}", quantities.duration(1e3 * gpu["round_trip"][f"{name}_us"]))
    return shown


def best(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By mode and what is set of it the batch that carries most, with its sustained point of the highest load."""
    found = []
    for way in dict.fromkeys(_way(point) for point in points):
        own = [point for point in points if _way(point) == way]
        most = max((point for point in own if point["offered_mpps"] is None), key=lambda p: p["carried_mpps"])
        held = [p for p in own if p["offered_mpps"] and p["sustained"]]
        at = max(held, key=lambda p: p["carried_mpps"], default=None)
        found.append(
            {
                **dict(zip(_WAY, way, strict=True)),
                "batch": most["batch"],
                "most_mpps": most["carried_mpps"],
                "sustained_mpps": at and at["carried_mpps"],
                "sustained_batch": at and at["batch"],
                "sustained_mean_us": at and at["mean_us"],
            }
        )
    return found


def _way(point: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(point[name] for name in _WAY)


def bench_table(points: list[dict[str, Any]]) -> Table:
    """The best of each mode, for people."""
    shown = Table(title="Best of each mode")
    for name in (
        "mode",
        "workers",
        "commit",
        "warps a core",
        "most, Mpps",
        "at batch",
        "sustained, Mpps",
        "at batch",
        "mean delay",
    ):
        shown.add_column(name, justify="left" if name == "mode" else "right")
    for row in best(points):
        shown.add_row(
            row["mode"],
            str(row["threads"] or "-"),
            row["commit"] or "-",
            str(row["warps_per_core"] or "-"),
            f"{row['most_mpps']:.3f}",
            str(row["batch"]),
            "none" if row["sustained_mpps"] is None else f"{row['sustained_mpps']:.3f}",
            "-" if row["sustained_batch"] is None else str(row["sustained_batch"]),
            "-" if row["sustained_mean_us"] is None else quantities.duration(1e3 * row["sustained_mean_us"]),
        )
    return shown
