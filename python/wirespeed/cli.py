"""The command `wirespeed`.

Results go to stdout, everything else to stderr. Exit codes: 0 fine, 1 a `--fail-if` condition fails or cannot be
judged, or points of a sweep failed as they ran, 2 bad input, 3 a program that was to be measured is missing, has died
or hangs, 70 a bug in wirespeed, 130 stopped by Ctrl-C (what there is by then is written and marked as partial).
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from wirespeed import _wirespeed, api, comparing, files, gate, interrupt, options, scenarios, terminal
from wirespeed import copies as copying
from wirespeed import cost as hardware
from wirespeed import doctor as machine
from wirespeed import memory as requests
from wirespeed import microengines as processors
from wirespeed import papers as registry
from wirespeed import predict as predictions
from wirespeed import recording as recordings
from wirespeed import router as routing
from wirespeed import sampling as samples
from wirespeed import slices as slicing
from wirespeed.advise import command as advising
from wirespeed.calibrate import command as calibration
from wirespeed.console import Console, emit, guarded
from wirespeed.errors import InputError, TargetError, nearest
from wirespeed.options import OUTPUT, TRAFFIC, CaptureOpt, ForceOpt, QuietOpt, TableOpt
from wirespeed.papers import paper as paper_files
from wirespeed.papers import show as paper_text
from wirespeed.progress import Bar
from wirespeed.result import Result
from wirespeed.stored import FILES, REPORT_FILE, earlier
from wirespeed.sweep import command as sweeping
from wirespeed.tune import command as tuning

EXIT_CONDITION: Final = 1
EXIT_INPUT: Final = 2
EXIT_BUG: Final = 70
EXIT_STOPPED: Final = interrupt.EXIT_STOPPED

DEMO_SCENARIO: Final = "forwarding"
DEMO_FOLDER: Final = "wirespeed-demo"


class Format(StrEnum):
    """How a command prints its result."""

    table = "table"
    json = "json"


class SearchFor(StrEnum):
    """What `--search` looks for."""

    ndr = "ndr"
    pdr = "pdr"


app = typer.Typer(
    name="wirespeed",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
memory = typer.Typer(
    name="memory",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Run a trace of memory requests through caches, or through a DRAM, on their own.",
)
app.add_typer(memory)
papers = typer.Typer(
    name="papers",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Run published studies again: what they claim, and what comes out here.",
)
app.add_typer(papers)
app.add_typer(recordings.app)

ScenarioArg = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help="A TOML file, or the name of a shipped scenario ([bold]wirespeed presets[/bold] lists them).",
        show_default=False,
    ),
]
SetOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override one setting, for example [bold]machine.llc.core_ways=8[/bold] (cores may fill 8 ways, as CAT "
        "sets it). May be given several times.",
        callback=options.one_of_each,
        show_default=False,
        rich_help_panel=TRAFFIC,
    ),
]
SeedOpt = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        help="Seed of all random streams: the same seed gives the same result, bit for bit.",
        rich_help_panel=TRAFFIC,
    ),
]
SearchOpt = Annotated[
    SearchFor | None,
    typer.Option(
        "--search",
        help="Search the highest load without loss (ndr) or with a small one (pdr), as in RFC 2544.",
        rich_help_panel=TRAFFIC,
    ),
]
ThreadsOpt = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        min=1,
        help="Simulate so many points of a curve, trials of a search or scenarios at a time; as many as there are "
        "cores if left out. The result does not depend on it.",
        show_default=False,
    ),
]


def _no_file(out: Path | None) -> Path | None:
    """Refuses a file before anything runs: what was simulated would be lost."""
    if out is not None and out.is_file():
        raise InputError(f"--out {out}: is a file; results are written to a folder")
    return out


OutOpt = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        callback=_no_file,
        help="Write tables (Parquet), summary.json, scenario.toml and report.html to this folder.",
        rich_help_panel=OUTPUT,
    ),
]
FormatOpt = Annotated[
    Format,
    typer.Option("--format", help="A summary to read, or one JSON object.", rich_help_panel=OUTPUT),
]
NoReportOpt = Annotated[bool, typer.Option("--no-report", help="Write no report.html.", rich_help_panel=OUTPUT)]


TraceOpt = Annotated[
    Path,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Requests, as text (rw, Ramulator, DRAMsim3, lackey, DynamoRIO) or binary, plain, .gz, .xz or .zst.",
        show_default=False,
    ),
]
TraceFormatOpt = Annotated[
    str | None,
    typer.Option(
        "--trace-format",
        metavar="FORMAT",
        help="rw, ramulator, dramsim3, lackey, dynamorio or binary; told from the first line if left out.",
        show_default=False,
    ),
]


def main() -> None:
    """Runs the command and exits with its code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks µ still gets its numbers
    with guarded():
        code = _answer()
        _leave(code)


def _answer() -> int:
    """Runs the command; its exit code."""
    code = EXIT_BUG
    try:
        interrupt.hand_over()
        answer = app(prog_name="wirespeed", standalone_mode=False)
        code = answer if isinstance(answer, int) else 0
    except TargetError as e:
        _complain(str(e))
        code = tuning.EXIT_TARGET
    except InputError as e:
        code = _complain(str(e))
    except OSError as e:
        # The file is the user's: a full disk, a folder that may not be written.
        code = _complain(f"{e.filename}: {e.strerror}" if e.filename else str(e))
    except KeyboardInterrupt:
        print("wirespeed: stopped", file=sys.stderr)
        code = EXIT_STOPPED
    except Exception as e:
        code = _usage(e)
    return code


def _usage(error: Exception) -> int:
    """Prints a wrong use of the command line as such; anything else is a bug, and its traceback is wanted."""
    show, exit_code = getattr(error, "show", None), getattr(error, "exit_code", None)
    if show is None or exit_code is None:
        traceback.print_exception(error)
        print(f"wirespeed: this is a bug; please report it with the lines above ({_version()})", file=sys.stderr)
        return EXIT_BUG
    if type(error).__name__ == "NoArgsIsHelpError":
        show()
        return EXIT_INPUT
    from typer import rich_utils

    rich_utils.rich_format_error(error)  # type: ignore[arg-type]
    return int(exit_code)


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version and exit.")] = False,
) -> None:
    """Tell whether a packet processor's memory system keeps wire speed, and what to change so that it does.

    Start with [bold]wirespeed demo[/bold].
    """
    if version:
        _emit(_version())
        raise typer.Exit


@app.command(
    epilog="Examples:\n\n"
    "  wirespeed run forwarding\n\n"
    "  wirespeed run forwarding --capture trace.pcap.gz --table rib.gz --out results\n\n"
    "  wirespeed run my.toml --set machine.llc.core_ways=8 --search ndr\n\n"
    "  wirespeed run forwarding --format json | jq .sojourn_ns.p99\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C (the partial result is written and marked).",
)
def run(
    scenario: ScenarioArg,
    capture: CaptureOpt = None,
    table: TableOpt = None,
    settings: SetOpt = None,
    seed: SeedOpt = None,
    search: SearchOpt = None,
    threads: ThreadsOpt = None,
    out: OutOpt = None,
    force: ForceOpt = False,
    form: FormatOpt = Format.table,
    no_report: NoReportOpt = False,
    quiet: QuietOpt = False,
) -> int:
    """Send traffic through a packet function on a machine; say whether it keeps wire speed and where time goes."""
    target = _target(out, force, not no_report)
    result = _run(scenario, capture, table, settings, seed, search, threads, quiet)
    return _finish(result, target, form, quiet)


@app.command(
    epilog="Examples:\n\n"
    "  wirespeed predict forwarding\n\n"
    "  wirespeed predict forwarding --load 0.1 --load 0.5 --load 0.9\n\n"
    "  wirespeed predict forwarding --set traffic.load=0.9 --check\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C.",
)
def predict(
    scenario: ScenarioArg,
    capture: CaptureOpt = None,
    table: TableOpt = None,
    settings: SetOpt = None,
    seed: SeedOpt = None,
    check: Annotated[bool, typer.Option("--check", help="Simulate too, and show the error.")] = False,
    loads: Annotated[
        list[float] | None,
        typer.Option("--load", metavar="SHARE", help="Answer for this share of the line rate, too; repeatable."),
    ] = None,
    form: FormatOpt = Format.table,
    quiet: QuietOpt = False,
) -> int:
    """Predict throughput, waiting and CPI in closed form, from the function's own instructions and misses."""
    with _stoppable():
        found = api.predict(scenario, capture, table, settings, seed, loads or ())
    compared = None
    if check:
        result = _run(scenario, capture, table, settings, seed, None, None, quiet)
        compared = predictions.errors(found, result.summary)
    if form is Format.json:
        _emit(json.dumps({**found, "beside_simulation": compared}, indent=2, allow_nan=False))
    else:
        _show(Text(predictions.sentence(found), "bold"))
        for shown in predictions.table(found, compared):
            _emit("")
            _show(shown)
        if compared is None:
            _show(predictions.stated(found))
    return 0


@app.command(
    epilog="Examples:\n\n"
    "  wirespeed sampling forwarding\n\n"
    "  wirespeed sampling upf --one-in 4 --set run.packets=200000 --format json\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C.",
)
def sampling(
    scenario: ScenarioArg,
    capture: CaptureOpt = None,
    table: TableOpt = None,
    settings: SetOpt = None,
    seed: SeedOpt = None,
    one_in: Annotated[
        int | None,
        typer.Option(
            "--one-in", metavar="N", min=1, help="Follow one set of the LLC in N (machine.sampling); 8 if left out."
        ),
    ] = None,
    form: FormatOpt = Format.table,
    quiet: QuietOpt = False,
) -> int:
    """Run with sampled sets and with all, on the same packets: the error of sampling, and what it gains in speed."""
    with contextlib.nullcontext() if quiet else Bar() as bar, _stoppable():
        found = api.sampling(scenario, capture, table, settings, seed, one_in, bar)
    if form is Format.json:
        _emit(json.dumps(found, indent=2, allow_nan=False))
    else:
        _show(samples.table(found))
    return 0


@app.command()
def doctor(
    root: Annotated[Path, typer.Option("--root", metavar="DIR", help="Look below this folder.")] = Path("/"),
    form: FormatOpt = Format.table,
) -> int:
    """Tell what this machine offers to set and to read, what is missing, and what to do. Changes nothing."""
    found = machine.survey(root)
    if form is Format.json:
        _emit(json.dumps(found, indent=2, allow_nan=False))
    else:
        _show(machine.page(found))
    return 0


@app.command()
def cost(
    size: Annotated[int, options.size("--size", "The cache's capacity.", 1024)] = 1 << 20,
    address: Annotated[int, typer.Option("--address", metavar="BITS", min=16, max=64, help="Address bits.")] = 32,
    form: FormatOpt = Format.table,
) -> int:
    """Show what a copy table and other techniques cost in bits and area."""
    found = hardware.document(size, address)
    if form is Format.json:
        _emit(json.dumps(found, indent=2, allow_nan=False))
    else:
        _show(Text(hardware.sentence(found), "bold"))
        for shown in hardware.tables(found):
            _emit("")
            _show(shown)
    return 0


@app.command()
def demo(
    capture: CaptureOpt = None,
    table: TableOpt = None,
    settings: SetOpt = None,
    seed: SeedOpt = None,
    threads: ThreadsOpt = None,
    out: OutOpt = Path(DEMO_FOLDER),
    force: ForceOpt = False,
    form: FormatOpt = Format.table,
    no_report: NoReportOpt = False,
    quiet: QuietOpt = False,
) -> int:
    """Run the shipped forwarding scenario and write its report: nothing to prepare, nothing to download."""
    target = _target(out, force, not no_report)
    result = _run(DEMO_SCENARIO, capture, table, settings, seed, None, threads, quiet)
    return _finish(result, target, form, quiet)


@app.command(
    epilog="Examples:\n\n"
    "  wirespeed compare forwarding forwarding,machine.llc.core_ways=4\n\n"
    "  wirespeed compare forwarding upf --capture trace.pcap.gz --out compared\n\n"
    "  wirespeed compare before/ after/ --fail-if 'p99 > +5%' --fail-if 'loss > 0.001'\n\n"
    "A condition is METRIC OP VALUE: a change (+5%, -2%), or a value (20 us, 0.001, 5 Mpps). Metrics are p50, p99, "
    "p999, mean, loss, carried_mpps and the attribution reasons. It fails only where it holds for the whole 95 % "
    "half-width, or where b has no value and a has one.\n\n"
    "Exit code: 0 fine, 1 a condition fails or cannot be judged, 2 bad input, 130 stopped by Ctrl-C.",
)
def compare(
    operands: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C]...",
            help="Scenarios or result folders; all are compared with the first. "
            "SCENARIO,PATH=VALUE is a scenario with one setting changed.",
            show_default=False,
        ),
    ],
    capture: CaptureOpt = None,
    table: TableOpt = None,
    settings: SetOpt = None,
    seed: SeedOpt = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if",
            metavar="CONDITION",
            help="Exit with 1 where this holds significantly: 'p99 > +5%', 'loss > 0.001'. May be given several times.",
            show_default=False,
        ),
    ] = None,
    threads: ThreadsOpt = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            callback=_no_file,
            help="Write comparison.json and comparison.html to this folder.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: ForceOpt = False,
    form: FormatOpt = Format.table,
    quiet: QuietOpt = False,
) -> int:
    """Compare runs on identical traffic, with the significance of each difference; gate a build on it."""
    conditions = [gate.parse(text) for text in fail_if or []]
    if len(operands) < 2:
        raise InputError("compare needs at least two operands: scenarios or result folders")
    if all(api.is_folder(each) for each in operands):
        given = {"--set": bool(settings), "--seed": seed is not None, "--threads": threads is not None}
        given |= {"--capture": capture is not None, "--table": table is not None}
        for option in (name for name, is_given in given.items() if is_given):
            raise InputError(
                f"{option} is for running scenarios, but all operands are results that were written before"
            )
    with _stoppable(), Bar(quiet=quiet) as bar:
        results = api.operands(operands, scenarios.overrides(settings), seed, threads, bar, capture, table)
    pairs = [api.compare(results[0], other) for other in results[1:]]
    judged = [[gate.judge(condition, pair.metrics) for condition in conditions] for pair in pairs]
    failed = any(judgement.outcome in gate.NO_PASS for judgements in judged for judgement in judgements)
    document = comparing.document(pairs, judged, failed)
    labels = results[0].summary.get("attribution_labels")
    if out is not None:
        written = json.dumps(document, indent=2, allow_nan=False) + "\n"
        pages = {
            "comparison.json": written,
            "comparison.html": comparing.page(operands, pairs, judged, labels),
        }
        files.write_texts(out, pages, force=force)
        if not quiet:
            print(f"wirespeed: wrote {out / 'comparison.html'} and comparison.json", file=sys.stderr)
    if form is Format.json:
        _emit(json.dumps(document, indent=2, allow_nan=False))
    else:
        for other, pair, judgements in zip(operands[1:], pairs, judged, strict=True):
            _show(terminal.comparison(pair, judgements, (operands[0], other), labels))
    return EXIT_CONDITION if failed else 0


@app.command()
def inspect(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A capture or a prefix table; with --rows also a scenario, a profile, edge, packmime or fixed=BYTES.",
            show_default=False,
        ),
    ],
    form: FormatOpt = Format.table,
    quiet: QuietOpt = False,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            metavar="W",
            help="Show instead how many DRAM rows W references to a packet buffer touch, by way of allocation.",
            show_default=False,
        ),
    ] = None,
    heat: Annotated[
        Path | None,
        typer.Option(
            "--heat", metavar="FILE", help="With --rows: draw rows over time as SVG to this file.", show_default=False
        ),
    ] = None,
) -> int:
    """Show what a capture holds: packets, sizes, flows, destinations, rates, damage; or what a prefix table holds."""
    if rows is not None:
        return _rows(file, rows, heat, form)
    if heat is not None:
        raise InputError("--heat draws what --rows counts: give --rows W, too")
    # What `<(zcat file)` names is no regular file, and can be read all the same.
    if not Path(file).exists() or Path(file).is_dir():
        raise InputError(f"{file}: no such file" if not Path(file).is_dir() else f"{file}: is a folder")
    document = _inspect(file, quiet)
    if form is Format.json:
        _emit(json.dumps(document, indent=2))
    else:
        _show(terminal.inspection(file, document))
    return 0


@memory.command(
    "dram",
    epilog="Examples:\n\n"
    "  wirespeed memory dram --preset ddr4-2400u --trace stream.rw\n\n"
    "  wirespeed memory dram --map 'row bank column group' --trace stream.rw --format json | jq .peak_share\n\n"
    "  wirespeed memory dram --preset ddr5-4800b --offered every=20 --writes drain=32/24/8 --trace mixed.rw.zst\n\n"
    "[bold]wirespeed presets --kind dram[/bold] lists presets, and with a name prints one, to change.",
)
def memory_dram(
    trace: TraceOpt,
    preset: Annotated[
        str, typer.Option("--preset", metavar="NAME", help="A shipped DRAM standard, or a TOML file (.toml).")
    ] = requests.PRESET,
    mapping: Annotated[
        str | None,
        typer.Option(
            "--map",
            metavar="PARTS",
            help="Parts of the address from high to low, as in 'row bank group column'; behind 'permuted:' with "
            "bank bits XORed with row bits; or a TOML file of bit fields (.toml).",
            show_default="row rank bank group column channel",
        ),
    ] = None,
    offered: Annotated[
        str,
        typer.Option(
            "--offered",
            metavar="LOAD",
            help="saturated (each request as soon as it is accepted), every=CLOCKS, or trace (its own clocks).",
        ),
    ] = "saturated",
    queue: Annotated[
        int | None, typer.Option("--queue", metavar="N", min=0, help="Entries of a queue.", show_default="32")
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            "--order",
            metavar="ORDER",
            help="fr-fcfs[=CAP], fcfs[=PREFETCH], batch=direction/SIZE/PREFETCH or batch=bank-parity/SIZE/PREFETCH.",
            show_default="fr-fcfs",
        ),
    ] = None,
    writes: Annotated[
        str | None,
        typer.Option("--writes", metavar="HOW", help="mixed, or drain=QUEUE/HIGH/LOW.", show_default="mixed"),
    ] = None,
    page: Annotated[
        str | None,
        typer.Option(
            "--page", metavar="HOW", help="open, closed or adaptive=CLOCKS.", show_default="open; closed with HMC"
        ),
    ] = None,
    refresh: Annotated[
        str | None, typer.Option("--refresh", metavar="HOW", help="all-bank, per-bank or off.", show_default="all-bank")
    ] = None,
    trace_format: TraceFormatOpt = None,
    form: FormatOpt = Format.table,
) -> int:
    """Run requests through a DRAM: bandwidth and where the rest of it goes, latencies, rows."""
    with _stoppable():
        read = requests.read_trace(trace, trace_format)
        document = requests.simulate_dram(
            read,
            preset,
            map=mapping,
            offered=offered,
            queue=queue,
            order=order,
            writes=writes,
            page=page,
            refresh=refresh,
        )
    if form is Format.json:
        _emit(json.dumps(document, indent=2, allow_nan=False))
    else:
        _show(terminal.memory_dram(document))
    return 0


@memory.command(
    "cache",
    epilog="Examples:\n\n"
    "  wirespeed memory cache --levels 32KiB/8,1MiB/16,16MiB/16 --trace loads.rw\n\n"
    "  wirespeed memory cache --levels 48KiB/12,2MiB/16:srrip,L3=32MiB/16:victim --trace lackey.txt.gz\n\n"
    "Options of a level stand behind colons: lru, fifo, mru, tree-plru, random, srrip, age=N; non-inclusive, "
    "inclusive, victim; write-back, write-through; write-allocate, write-validate, write-around; next-line=N, "
    "stride=N, stream=N; ways=MASK, class1=MASK to class15=MASK; slices=N, hash=xor-fold, modulo, intel or mixed, "
    "ring, mesh=COLUMNS; of the last level io=MASK, io-age=N.",
)
def memory_cache(
    levels: Annotated[
        str,
        typer.Option(
            "--levels",
            metavar="LEVELS",
            help="Size and ways of each level, the nearest to the core first, as in 32KiB/8,1MiB/16.",
            show_default=False,
        ),
    ],
    trace: TraceOpt,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Seed of random replacement and of the sample.")
    ] = 0,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            metavar="N",
            min=1,
            help="Simulate one of every N sets, and say how far off that may be.",
            show_default=False,
        ),
    ] = None,
    trace_format: TraceFormatOpt = None,
    form: FormatOpt = Format.table,
) -> int:
    """Run requests through a chain of caches: hits and misses of each level."""
    with _stoppable():
        document = requests.simulate_cache(requests.read_trace(trace, trace_format), levels, seed=seed, sample=sample)
    if form is Format.json:
        _emit(json.dumps(document, indent=2, allow_nan=False))
    else:
        _show(terminal.memory_cache(document))
    return 0


@memory.command(
    "buffers",
    epilog="Examples:\n\n"
    "  wirespeed memory buffers\n\n"
    "  wirespeed memory buffers --memory ddr5-6400b --order fr-fcfs --seeds 2 --format json | jq '.rows[].gain_pct'",
)
def memory_buffers(
    memories: Annotated[
        list[str] | None,
        typer.Option("--memory", metavar="PRESET", help="A DRAM standard; may be given several times."),
    ] = None,
    orders: Annotated[
        list[str] | None,
        typer.Option("--order", metavar="ORDER", help="As of memory dram; may be given several times."),
    ] = None,
    pages: Annotated[
        list[str] | None,
        typer.Option("--page", metavar="HOW", help="open, closed or adaptive=CLOCKS; may be given several times."),
    ] = None,
    traffic: Annotated[
        str, typer.Option("--traffic", metavar="WHAT", help="edge, packmime, a profile, a capture or a scenario.")
    ] = "edge",
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Runs of each.")] = 5,
    form: FormatOpt = Format.table,
) -> int:
    """Compare ways to allocate packet buffers on DRAM of today: throughput, gain, row hits, latency."""
    from wirespeed import buffers

    given = {"memories": memories, "orders": orders, "pages": pages}
    with _stoppable():
        found = buffers.compare(
            traffic=buffers.traffic_of(traffic), seeds=seeds, **{k: v for k, v in given.items() if v}
        )
    if form is Format.json:
        _emit(json.dumps(found, indent=2, allow_nan=False))
    else:
        _show(buffers.comparison_table(found))
    return 0


@memory.command("convert")
def memory_convert(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A trace in any format.", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="TO", help="Where the binary form goes.", show_default=False)],
    trace_format: TraceFormatOpt = None,
) -> int:
    """Write a trace of memory requests in the binary form, which is read many times as fast as text."""
    with _stoppable():
        requests.write_trace(requests.read_trace(source, trace_format), target)
    return 0


@papers.command("list")
def papers_list() -> int:
    """List the papers that can be run, with the ways to read them."""
    _show(paper_text.papers(registry.papers()))
    return 0


@papers.command(
    "run",
    epilog="Examples:\n\n"
    "  wirespeed papers run 2020-access-korikawa --out results\n\n"
    "  wirespeed papers run 2020-access-korikawa --claim throughput --reading A --format json\n\n"
    "With --out, finished points are kept in the folder: a run that was stopped goes on where it was.\n\n"
    "Exit code: 0 fine (whatever the claims come to), 2 bad input, 130 stopped by Ctrl-C.",
)
def papers_run(
    paper: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="A paper ([bold]wirespeed papers list[/bold] lists them).", show_default=False
        ),
    ],
    claim: Annotated[
        list[str] | None,
        typer.Option(
            "--claim",
            metavar="CLAIM",
            help="Only claims of this id, or with this in id, words or place. May be given several times.",
            show_default=False,
        ),
    ] = None,
    reading: Annotated[
        str | None,
        typer.Option(
            "--reading", metavar="NAME", help="One way to read what the text leaves open, or all.", show_default=False
        ),
    ] = None,
    real_size: Annotated[
        bool, typer.Option("--real-size", help="Sizes of real machines in place of the paper's, where it has both.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of all random streams.")] = 0,
    threads: Annotated[
        int | None,
        typer.Option("--threads", metavar="N", min=1, help="Points at a time; all cores if left out."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write claims.json, points.csv and figures to this folder."),
    ] = None,
    force: ForceOpt = False,
    form: FormatOpt = Format.table,
    quiet: QuietOpt = False,
) -> int:
    """Run a paper's study and judge its claims: reproduced, partly, not, or listed."""
    found = registry.find(paper)
    if found.id != paper and not quiet:
        print(f"wirespeed: {paper}: taken as {found.id}; takes {found.takes}", file=sys.stderr)
    with _stoppable(), Bar(quiet=quiet, unit="points") as bar:
        reports = registry.run(
            found,
            claims=claim or [],
            reading=reading,
            real_size=real_size,
            seed=seed,
            threads=threads,
            kept=registry.Kept(out),
            progress=bar,
        )
    written = paper_files.write(reports, out, force) if out is not None else []
    if form is Format.json:
        claims = [judged.document() for report in reports for judged in report.claims]
        _emit(json.dumps(claims, indent=2, allow_nan=False))
    else:
        _show(paper_text.reports(reports))
    if written and not quiet:
        print(f"wirespeed: wrote {len(written)} files to {out}", file=sys.stderr)
    return 0


@app.command()
def schema() -> int:
    """Print the JSON Schema of a scenario, for editors and checks."""
    _emit(_wirespeed.schema())
    return 0


@app.command()
def presets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Print the TOML of this one.")] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Of this kind alone, such as machine or dram.")] = None,
) -> int:
    """List the shipped machines, traffic profiles, DRAM standards, GPUs, network processors, scenarios; print one."""
    rows = [row for row in _wirespeed.presets() if kind is None or row[0] == kind]
    if not rows:
        kinds = sorted({row[0] for row in _wirespeed.presets()})
        raise InputError(f"--kind {kind}: must be one of {', '.join(kinds)}{nearest(kind or '', kinds)}")
    if name is None:
        _show(terminal.presets(rows))
        return 0
    found = [row for row in rows if row[1] == name]
    if not found:
        near = nearest(name, [row[1] for row in rows], 0.6)
        raise InputError(f"there is no preset `{name}`{near or '; `wirespeed presets` lists all'}")
    if len(found) > 1:
        raise InputError(f"`{name}` is a {' and a '.join(row[0] for row in found)}: say which with --kind")
    _emit(_wirespeed.preset(found[0][0], name))
    return 0


def _rows(what: str, window: int, heat: Path | None, form: Format) -> int:
    from wirespeed import buffers

    with _stoppable():
        found = buffers.rows_touched(what, window)
    if heat is not None:
        files.write(heat, buffers.heat_map(found))
    if form is Format.json:
        _emit(json.dumps(found, indent=2, allow_nan=False))
    else:
        _show(buffers.rows_table(found))
    return 0


def _run(
    scenario: str,
    capture: Path | None,
    table: Path | None,
    settings: list[str] | None,
    seed: int | None,
    search: SearchFor | None,
    threads: int | None,
    quiet: bool,
) -> Result:
    with _stoppable(), Bar(quiet=quiet) as bar:
        return api.run(
            scenario,
            capture=capture,
            table=table,
            set=settings,
            seed=seed,
            threads=threads,
            search=search.value if search else None,
            progress=bar,
        )


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Says why there is no result where Ctrl-C left none; typer would drop the message."""
    try:
        yield
    except KeyboardInterrupt as e:
        print(f"wirespeed: {e if e.args else 'stopped'}", file=sys.stderr)
        raise typer.Exit(EXIT_STOPPED) from None


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a result goes."""

    folder: Path
    force: bool
    report: bool


def _target(out: Path | None, force: bool, report: bool) -> _Target | None:
    """Where a result goes, judged before anything runs: what is in the way there would cost the result."""
    if out is None:
        return None
    files.judge(out, [name for name in FILES if report or name != REPORT_FILE], force)
    return _Target(out, force, report)


def _finish(result: Result, target: _Target | None, form: Format, quiet: bool) -> int:
    before, written = None, []
    if target is not None:
        before = earlier(target.folder)
        written = result.write(target.folder, target.report, _command(), target.force)
    if form is Format.json:
        _emit(result.summary_json)
    else:
        _show(terminal.run_summary(result.summary))
    if not quiet:
        _say_where(target.folder if target is not None else None, written, form)
        if target is not None and before is not None:
            print(f"wirespeed: replaced run {before} in {target.folder}", file=sys.stderr)
    return EXIT_STOPPED if result.partial else 0


def _say_where(out: Path | None, files: list[Path], form: Format) -> None:
    """Says on stderr where the results lie, or how to keep them."""
    console = Console(stderr=True)
    if out is None:
        if form is Format.table:
            console.print("\nAdd --out DIR to keep tables and a report.", style="dim", highlight=False)
        return
    report = next((str(file) for file in files if file.name == REPORT_FILE), None)
    console.print()
    console.print(terminal.written(str(out), [file.name for file in files], report), highlight=False)


def _inspect(file: str, quiet: bool) -> dict[str, Any]:
    """Reads the file as a capture, else as a prefix table; if it is neither, says why for both."""
    try:
        with Bar(quiet=quiet) as bar:
            return api.inspect(file, bar)
    except InputError as as_capture:
        if not Path(file).is_file():
            raise InputError(
                f"{as_capture}\n  a pipe is read as a capture only: write a prefix table to a file"
            ) from None
        try:
            return api.inspect_table(file)
        except InputError as as_table:
            raise InputError(
                f"{file}: neither a capture nor a prefix table\n"
                f"  as a capture: {as_capture}\n  as a prefix table: {as_table}"
            ) from None


def _show(renderable: RenderableType) -> None:
    _emit(terminal.text(renderable, Console()).rstrip("\n"))


def _emit(text: str) -> None:
    """Prints to stdout. A reader that has left (`| head`) is no error, and does not change the exit code."""
    try:
        emit(text)
    except BrokenPipeError:
        _discard_stdout()


def _leave(code: int) -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
    sys.exit(code)


def _discard_stdout() -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str) -> int:
    print(f"wirespeed: {message}", file=sys.stderr)
    return EXIT_INPUT


def _command() -> str:
    return shlex.join(["wirespeed", *sys.argv[1:]])


tuning.add(app, _emit, _stoppable)
copying.add(app, _show, _emit, _stoppable)
sweeping.add(app, _emit, _stoppable)
advising.add(app, _emit, _stoppable)
slicing.add(app, _emit, _stoppable)
processors.add(app, _show, _emit, _stoppable)
calibration.add(app, _emit, _stoppable)
routing.add(app, _emit, _stoppable)


def _version() -> str:
    return f"wirespeed {_wirespeed.version()} (commit {_wirespeed.commit()})"


if __name__ == "__main__":
    main()
