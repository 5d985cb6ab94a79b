"""The router that runs, and its commands: `wirespeed router run`, `probe` and `bench`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer
from rich.table import Table

from wirespeed import _wirespeed, files, options, quantities, terminal
from wirespeed.console import Console
from wirespeed.errors import InputError
from wirespeed.options import OUTPUT, QuietOpt, TablesOrJsonOpt

EXIT_NO_GPU: Final = 77
EXIT_STOPPED: Final = 130

_SOURCE, _HOW = "Packets and routes", "How it runs"
_RUN_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed router run --capture trace.pcap.gz --table rib.gz --out routed.pcap\n\n"
    "  wirespeed router run --profile imix --rate '0.5 Mpps' --seconds 5 --threads 2 --ordered\n\n"
    "  wirespeed router run --backend auto --capture trace.pcap --table rib.gz --format json | jq .forwarded\n\n"
    "  wirespeed router run --interface veth0 --reflect --packets 1000\n\n"
    "  wirespeed router run --function check,classify,inspect,lookup,ttl --search tuple-space --method bloom\n\n"
    "Without --rate and --speed packets are taken as fast as they go, and no delay is told.\n\n"
    "Exit code: 0 fine, 2 bad input or no GPU, 70 a bug, 130 stopped by Ctrl-C: report and --out have what was routed."
)


class Backend(StrEnum):
    """What does the work."""

    cpu = "cpu"
    cuda = "cuda"
    auto = "auto"
    twin = "twin"


class Mode(StrEnum):
    """How a GPU is used."""

    zero_copy = "zero-copy"
    resident = "resident"
    batch = "batch"
    streams = "streams"
    graph = "graph"


class Search(StrEnum):
    """How rules are searched."""

    linear = "linear"
    tuple_space = "tuple-space"


class Method(StrEnum):
    """How payloads are searched."""

    aho_corasick = "aho-corasick"
    bloom = "bloom"


class Structure(StrEnum):
    """By what routes are looked up."""

    dir24 = "dir24"
    poptrie = "poptrie"


FunctionOpt = Annotated[
    str,
    typer.Option(
        "--function",
        metavar="NAME,NAME",
        help="What is done with each packet: forward, check, lookup, ttl, classify, inspect, fragment, or several, one "
        "after the other.",
        rich_help_panel=_SOURCE,
    ),
]
SearchOpt = Annotated[
    Search | None,
    typer.Option("--search", help="How classify searches its rules.", show_default="linear", rich_help_panel=_SOURCE),
]
MethodOpt = Annotated[Method, typer.Option("--method", help="How inspect searches payloads.", rich_help_panel=_SOURCE)]
StructureOpt = Annotated[
    Structure | None,
    typer.Option("--structure", help="By what lookup finds routes.", show_default="dir24", rich_help_panel=_SOURCE),
]
MtuOpt = Annotated[
    int | None,
    typer.Option(
        "--mtu",
        metavar="BYTES",
        min=68,
        max=65535,
        help="fragment cuts IPv4 packets that are longer.",
        show_default="1500",
        rich_help_panel=_SOURCE,
    ),
]
RulesOpt = Annotated[
    Path | None,
    typer.Option(
        "--rules",
        metavar="FILE",
        help="Rules to classify by, in the form of ClassBench.",
        show_default="made ones",
        rich_help_panel=_SOURCE,
    ),
]
PatternsOpt = Annotated[
    Path | None,
    typer.Option(
        "--patterns",
        metavar="FILE",
        help="Strings to inspect for; a packet with one is dropped.",
        show_default="made ones",
        rich_help_panel=_SOURCE,
    ),
]
RoutesOpt = Annotated[
    Path | None,
    typer.Option(
        "--table",
        metavar="FILE",
        help="Use this prefix table: MRT or a plain list, also compressed.",
        callback=options.a_table,
        show_default="a made one",
        rich_help_panel=_SOURCE,
    ),
]
DriverOpt = Annotated[
    str | None,
    typer.Option(
        "--driver",
        metavar="FILE",
        help="The GPU driver's library.",
        show_default="libcuda.so.1",
        rich_help_panel=_HOW,
    ),
]


def run(**settings: Any) -> dict[str, Any]:
    """Routes packets; settings as `wirespeed router run` has them, with underscores.

    `mpps` is its rate: a number of Mpps, or a text with a unit. Returns the report: packets, forwarded, dropped by
    reason, ports, mpps, gbps (L2), wall_s, run_s, cpu_s, and delay in microseconds where packets had a schedule;
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


def add(app: typer.Typer, show: Callable[[str], None], stoppable: Callable[[], AbstractContextManager[None]]) -> None:
    """Adds the commands to `app`; `show` prints to stdout, `stoppable` stands around what Ctrl-C may end."""
    router = typer.Typer(
        name="router",
        no_args_is_help=True,
        rich_markup_mode="rich",
        help="Route real packets, on CPU threads or on a GPU, and measure how fast and how late.",
    )
    app.add_typer(router)

    @router.command("run", epilog=_RUN_EPILOG)
    def _run(
        capture: Annotated[
            Path | None,
            typer.Option(
                "--capture",
                metavar="FILE",
                help="Route this capture.",
                callback=options.a_capture,
                rich_help_panel=_SOURCE,
            ),
        ] = None,
        profile: Annotated[
            str | None,
            typer.Option(
                "--profile",
                metavar="NAME",
                help="Make traffic of this profile: isp, imix, min64, or a file.",
                show_default="isp",
                rich_help_panel=_SOURCE,
            ),
        ] = None,
        interface: Annotated[
            str | None,
            typer.Option(
                "--interface",
                metavar="NAME",
                help="Receive from this network interface (needs CAP_NET_RAW).",
                rich_help_panel=_SOURCE,
            ),
        ] = None,
        ring: Annotated[
            int | None,
            typer.Option(
                "--ring",
                metavar="MIB",
                min=1,
                max=1024,
                help="Receive by a ring of so many MiB that is shared with the kernel (TPACKET_V3).",
                show_default="a call a packet",
                rich_help_panel=_SOURCE,
            ),
        ] = None,
        table: RoutesOpt = None,
        function: FunctionOpt = "forward",
        search: SearchOpt = None,
        method: MethodOpt = Method.aho_corasick,
        structure: StructureOpt = None,
        mtu: MtuOpt = None,
        rules: RulesOpt = None,
        patterns: PatternsOpt = None,
        ports: Annotated[
            int,
            typer.Option(
                "--ports",
                metavar="N",
                min=1,
                max=65535,
                help="Ports of the router: next hop n is behind port n modulo N.",
                rich_help_panel=_SOURCE,
            ),
        ] = 4,
        packets: Annotated[
            int | None,
            typer.Option("--packets", metavar="N", min=1, help="End after so many.", rich_help_panel=_SOURCE),
        ] = None,
        seconds: Annotated[
            float | None,
            typer.Option("--seconds", metavar="S", help="End after so long.", rich_help_panel=_SOURCE),
        ] = None,
        rate: Annotated[
            str | None,
            typer.Option(
                "--rate",
                metavar="RATE",
                help="Offer so much, as '0.5 Mpps' or '500 kpps' (a bare number is Mpps), and measure delay.",
                rich_help_panel=_SOURCE,
            ),
        ] = None,
        speed: Annotated[
            float | None,
            typer.Option(
                "--speed",
                metavar="X",
                help="Offer the capture X times as fast as its timestamps, and measure delay.",
                rich_help_panel=_SOURCE,
            ),
        ] = None,
        seed: Annotated[int, options.seed("Seed of what is made", _SOURCE)] = 0,
        backend: Annotated[
            Backend,
            typer.Option(
                "--backend",
                help="cpu: threads; cuda: a GPU; auto: a GPU, or else cpu; twin: its kernel on threads, for tests.",
                rich_help_panel=_HOW,
            ),
        ] = Backend.cpu,
        mode: Annotated[
            Mode,
            typer.Option(
                "--mode",
                help="On a GPU: a kernel that stays, packets in host memory (zero-copy) or its own (resident); or "
                "a kernel a batch: one at a time, three streams, a graph.",
                rich_help_panel=_HOW,
            ),
        ] = Mode.zero_copy,
        threads: Annotated[
            int | None,
            typer.Option(
                "--threads",
                metavar="N",
                min=1,
                max=1024,
                help="Workers.",
                show_default="cores less one",
                rich_help_panel=_HOW,
            ),
        ] = None,
        ordered: Annotated[
            bool,
            typer.Option("--ordered", help="Packets leave in the order they came in.", rich_help_panel=_HOW),
        ] = False,
        batch: Annotated[
            int,
            typer.Option("--batch", metavar="N", min=1, help="Packets to wait for.", rich_help_panel=_HOW),
        ] = 32,
        timeout: Annotated[
            float | None,
            typer.Option(
                "--timeout",
                metavar="US",
                help="Microseconds that a batch waits to be full.",
                show_default="2 batch arrival times, estimated",
                rich_help_panel=_HOW,
            ),
        ] = None,
        verify: Annotated[
            bool,
            typer.Option("--verify-checksum", help="Verify IPv4 header checksums.", rich_help_panel=_HOW),
        ] = False,
        deadline: Annotated[
            float,
            typer.Option(
                "--deadline", metavar="S", help="Give a backend up that is silent so long.", rich_help_panel=_HOW
            ),
        ] = 5.0,
        driver: DriverOpt = None,
        device: Annotated[
            int, typer.Option("--device", metavar="N", min=0, help="Which GPU.", rich_help_panel=_HOW)
        ] = 0,
        out: Annotated[
            Path | None,
            typer.Option("--out", metavar="FILE", help="Write what is forwarded to this pcap.", rich_help_panel=OUTPUT),
        ] = None,
        reflect: Annotated[
            bool,
            typer.Option(
                "--reflect", help="Send what is forwarded by the interface it came from.", rich_help_panel=OUTPUT
            ),
        ] = False,
        form: TablesOrJsonOpt = "table",
    ) -> int:
        """Route packets of a capture, a generator or an interface; say what became of them and how long it took."""
        with stoppable():
            routed = run(
                function=function,
                search=_name(search),
                method=_name(method),
                structure=_name(structure),
                mtu=mtu,
                rules=rules,
                patterns=patterns,
                capture=capture,
                profile=profile,
                interface=interface,
                ring_mib=ring,
                table=table,
                ports=ports,
                packets=packets,
                seconds=seconds,
                mpps=_rate(rate),
                speed=speed,
                seed=seed,
                backend=backend.value,
                mode=mode.value.replace("-", "_"),
                threads=threads,
                ordered=ordered,
                batch=batch,
                timeout_us=timeout,
                verify_checksum=verify,
                deadline_s=deadline,
                driver=driver,
                device=device,
                out=out,
                reflect=reflect,
            )
        if form == "json":
            show(json.dumps(routed, indent=2, allow_nan=False))
        else:
            _notes(routed["notes"])
            for each in tables(routed):
                show(terminal.text(each, Console()).rstrip("\n"))
        return EXIT_STOPPED if routed["stopped"] else 0

    @router.command(
        "probe",
        epilog=f"Exit code: 0 a GPU that can be used, {EXIT_NO_GPU} none (the reason is told), 2 bad input.",
    )
    def _probe(
        driver: DriverOpt = None,
        form: TablesOrJsonOpt = "table",
    ) -> int:
        """Say what this machine's GPU offers to the router, or why there is none that it can use."""
        with stoppable():
            found = probe(driver)
        gpu = found["gpu"]
        if form == "json":
            show(json.dumps(found, indent=2, allow_nan=False))
        elif gpu is None:
            show(found["reason"])
        else:
            show(terminal.text(offer_table(gpu), Console()).rstrip("\n"))
        return 0 if gpu is not None else EXIT_NO_GPU

    @router.command(
        "bench",
        epilog="Examples:\n\n"
        "  wirespeed router bench --cpu-only --batches 32,256,2048 --csv curves.csv\n\n"
        "  wirespeed router bench --table rib.gz --capture trace.pcap.gz --csv curves.csv\n\n"
        "Exit code: 0 fine, 1 a verdict was wrong, 2 bad input, 130 stopped by Ctrl-C (the CSV has what was measured).",
    )
    def _bench(
        function: FunctionOpt = "forward",
        search: SearchOpt = None,
        method: MethodOpt = Method.aho_corasick,
        structure: StructureOpt = None,
        mtu: MtuOpt = None,
        rules: RulesOpt = None,
        patterns: PatternsOpt = None,
        table: RoutesOpt = None,
        capture: Annotated[
            Path | None,
            typer.Option(
                "--capture",
                metavar="FILE",
                help="Use its packets.",
                callback=options.a_capture,
                show_default="made ones",
            ),
        ] = None,
        batches: Annotated[
            str, typer.Option("--batches", metavar="N,N", help="Batches: powers of two.")
        ] = "32,64,128,256,512,1024,2048,4096,8192",
        shares: Annotated[
            str, typer.Option("--shares", metavar="X,X", help="Loads, as shares of the most that is carried.")
        ] = "0.2,0.5,0.8,0.95",
        packets: Annotated[int, typer.Option("--packets", metavar="N", help="Packets a point: a power of two.")] = 1
        << 19,
        threads: Annotated[
            str | None,
            typer.Option("--threads", metavar="N,N", help="Numbers of CPU workers.", show_default="cores less one"),
        ] = None,
        cpu_only: Annotated[bool, typer.Option("--cpu-only", help="Leave the GPU out.")] = False,
        driver: DriverOpt = None,
        csv: Annotated[
            Path | None, typer.Option("--csv", metavar="FILE", help="Write each point to this file at once.")
        ] = None,
        seed: Annotated[int, options.seed("Seed of what is made", _SOURCE)] = 0,
        form: TablesOrJsonOpt = "table",
        quiet: QuietOpt = False,
    ) -> int:
        """Measure delay against throughput: every mode of a GPU beside CPU threads, every verdict checked."""
        points: list[dict[str, Any]] = []
        stopping = False
        with _csv(csv) as file:

            def each(point: dict[str, Any]) -> bool:
                points.append(point)
                if file is not None:
                    print(_line(point), file=file, flush=True)
                if not quiet:
                    print(f"wirespeed: {_told(point)}", file=sys.stderr)
                return not stopping

            try:
                with stoppable():
                    done = bench(
                        each,
                        function=function,
                        search=_name(search),
                        method=_name(method),
                        structure=_name(structure),
                        mtu=mtu,
                        rules=rules,
                        patterns=patterns,
                        table=table,
                        capture=capture,
                        batches=_numbers("--batches", batches, int),
                        shares=_numbers("--shares", shares, float),
                        packets=packets,
                        threads=None if threads is None else _numbers("--threads", threads, int),
                        cpu_only=cpu_only,
                        driver=driver,
                        seed=seed,
                    )
            finally:
                stopping = True
        wrong = sum(point["wrong"] for point in points)
        if form == "json":
            show(json.dumps({**done, "points": points, "best": best(points)}, indent=2, allow_nan=False))
        else:
            _notes(done["notes"])
            show(terminal.text(bench_table(points), Console()).rstrip("\n"))
        return 1 if wrong else 0


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


def _rows(routed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    v4, v6 = routed["routes"]
    yield "function", routed["function"]
    if v4 or v6:
        yield "routes", f"{v4:,} IPv4, {v6:,} IPv6"
    if routed["threads"] is not None:
        yield "workers", str(routed["threads"])
    yield "order", "kept" if routed["ordered"] else f"{routed['reordered']:,} packets committed late"
    yield "packets", f"{routed['packets']:,}"
    yield "forwarded", f"{routed['forwarded']:,}"
    if routed["fragments"]:
        yield "cut", f"{routed['fragmented']:,} packets, {routed['fragments']:,} frames more"
    yield "dropped", f"{sum(routed['dropped'].values()):,}"
    if routed["missed"]:
        yield "missed by the interface", f"{routed['missed']:,}"
    if routed["unsent"]:
        yield "not sent: the interface had no room", f"{routed['unsent']:,}"
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
    """By mode the batch that carries most, with its sustained point of the highest load."""
    found = []
    for mode, threads in dict.fromkeys((point["mode"], point["threads"]) for point in points):
        own = [point for point in points if (point["mode"], point["threads"]) == (mode, threads)]
        most = max((point for point in own if point["offered_mpps"] is None), key=lambda p: p["carried_mpps"])
        held = [p for p in own if p["offered_mpps"] and p["sustained"]]
        at = max(held, key=lambda p: p["carried_mpps"], default=None)
        found.append(
            {
                "mode": mode,
                "threads": threads,
                "batch": most["batch"],
                "most_mpps": most["carried_mpps"],
                "sustained_mpps": at and at["carried_mpps"],
                "sustained_batch": at and at["batch"],
                "sustained_mean_us": at and at["mean_us"],
            }
        )
    return found


def bench_table(points: list[dict[str, Any]]) -> Table:
    """The best of each mode, for people."""
    shown = Table(title="Best of each mode")
    for name in ("mode", "workers", "most, Mpps", "at batch", "sustained, Mpps", "at batch", "mean delay"):
        shown.add_column(name, justify="left" if name == "mode" else "right")
    for row in best(points):
        shown.add_row(
            row["mode"],
            str(row["threads"] or "-"),
            f"{row['most_mpps']:.3f}",
            str(row["batch"]),
            "none" if row["sustained_mpps"] is None else f"{row['sustained_mpps']:.3f}",
            "-" if row["sustained_batch"] is None else str(row["sustained_batch"]),
            "-" if row["sustained_mean_us"] is None else quantities.duration(1e3 * row["sustained_mean_us"]),
        )
    return shown


def _told(point: Mapping[str, Any]) -> str:
    offered, mean = point["offered_mpps"], point["mean_us"]
    name = f"{point['mode']} x{point['threads']}" if point["threads"] else point["mode"]
    load = "all at once" if offered is None else f"{offered:.3f} Mpps offered"
    delay = "" if mean is None else f", mean delay {quantities.duration(1e3 * mean)}"
    wrong = "" if not point["wrong"] else f", {point['wrong']} WRONG VERDICTS"
    return f"{name}, batch {point['batch']}, {load}: {point['carried_mpps']:.3f} Mpps{delay}{wrong}"


def _line(point: Mapping[str, Any]) -> str:
    def cell(value: Any) -> str:
        if value is None:
            return ""
        return f"{value:.4f}" if isinstance(value, float) else str(value).lower()

    return ",".join(cell(point[name]) for name in _wirespeed.bench_columns().split(","))


@contextmanager
def _csv(path: Path | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
        return
    files.refuse_link(path)
    with path.open("w", encoding="utf-8") as file:
        print(_wirespeed.bench_columns(), file=file, flush=True)
        yield file


def _name(choice: StrEnum | None) -> str | None:
    return None if choice is None else choice.value.replace("-", "_")


def _rate(text: str | None) -> float | str | None:
    """What has a unit is for the simulator's own parser; a bare number is Mpps."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def _numbers(option: str, text: str, kind: type[int] | type[float]) -> list[int] | list[float]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text}: must be numbers with commas between") from None


def _notes(notes: list[str]) -> None:
    for note in notes:
        print(f"wirespeed: {note}", file=sys.stderr)
