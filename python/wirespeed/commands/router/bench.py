"""`wirespeed router bench`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer

from wirespeed import _wirespeed, files, quantities, router
from wirespeed.commands import options
from wirespeed.commands.exits import EXIT_WRONG
from wirespeed.commands.fields import spread
from wirespeed.commands.options import QuietOpt, TablesOrJsonOpt
from wirespeed.commands.output import emit_json, say, show, stoppable
from wirespeed.commands.router.options import DriverOpt, Function, MadeSeedOpt, RoutesOpt, settings
from wirespeed.errors import InputError

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed router bench --cpu-only --batches 32,256,2048 --csv curves.csv\n\n"
    "  wirespeed router bench --table rib.gz --capture trace.pcap.gz --csv curves.csv\n\n"
    "Exit code: 0 fine, 1 a verdict was wrong, 2 bad input, 130 stopped by Ctrl-C (the CSV has what was measured)."
)
_POINT: Final = 1 << 19

app = typer.Typer()


@dataclass(frozen=True, kw_only=True)
class Options(Function):
    """What the command line says."""

    table: RoutesOpt = None
    capture: Annotated[Path | None, options.capture("Use its packets.", show_default="made ones")] = None
    batches: Annotated[str, typer.Option("--batches", metavar="N,N", help="Batches: powers of two.")] = (
        "32,64,128,256,512,1024,2048,4096,8192"
    )
    shares: Annotated[
        str, typer.Option("--shares", metavar="X,X", help="Loads, as shares of the most that is carried.")
    ] = "0.2,0.5,0.8,0.95"
    packets: Annotated[int, typer.Option("--packets", metavar="N", help="Packets a point: a power of two.")] = _POINT
    modes: Annotated[
        str | None,
        typer.Option(
            "--modes",
            metavar="M,M",
            help="cpu, zero-copy, resident, batch, streams, graph, batch-gathered, streams-gathered.",
            show_default="all",
        ),
    ] = None
    commits: Annotated[
        str,
        typer.Option("--commits", metavar="C,C", help="Of kernels that stay: device, host, unordered."),
    ] = "device"
    mcw: Annotated[
        str,
        typer.Option(
            "--mcw",
            metavar="N,N",
            help="Warps a core of kernels that stay; max is as many as fit, up to one a task of the ring.",
        ),
    ] = "max"
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="S", help="End after so long: what tells most is measured first."),
    ] = None
    threads: Annotated[
        str | None,
        typer.Option("--threads", metavar="N,N", help="Numbers of CPU workers.", show_default="cores less one"),
    ] = None
    cpu_only: Annotated[bool, typer.Option("--cpu-only", help="Leave the GPU out.")] = False
    driver: DriverOpt = None
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write each point to this file at once.")
    ] = None
    seed: MadeSeedOpt = 0
    form: TablesOrJsonOpt = "table"
    quiet: QuietOpt = False


@app.command("bench", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Measure delay against throughput: every mode of a GPU beside CPU threads, every verdict checked."""
    points: list[dict[str, Any]] = []
    done = _measured(given, points)
    if given.form == "json":
        emit_json({**done, "points": points, "best": router.best(points)})
    else:
        for note in done["notes"]:
            say(note)
        show(router.bench_table(points))
    return EXIT_WRONG if sum(point["wrong"] for point in points) else 0


def _measured(given: Options, points: list[dict[str, Any]]) -> dict[str, Any]:
    """Fills `points`, each of which is written and told as soon as it is there; what else there is to say."""
    stopping = False
    with _csv(given.csv) as file:

        def each(point: dict[str, Any]) -> bool:
            points.append(point)
            if file is not None:
                _write(file, _line(point))
            if not given.quiet:
                say(_told(point))
            return not stopping

        try:
            with stoppable():
                numbers = {
                    "batches": _numbers("--batches", given.batches, int),
                    "shares": _numbers("--shares", given.shares, float),
                    "threads": None if given.threads is None else _numbers("--threads", given.threads, int),
                }
                said = {name: value for name, value in settings(given).items() if name != "mcw"}
                return router.bench(each, **{**said, **numbers, **_ways(given)})
        finally:
            stopping = True


def _told(point: Mapping[str, Any]) -> str:
    offered, mean = point["offered_mpps"], point["mean_us"]
    name = f"{point['mode']} x{point['threads']}" if point["threads"] else point["mode"]
    if point["warps_per_core"] is not None:
        name = f"{name}, commit {point['commit']}, {point['warps_per_core']} warps a core"
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


def _write(file: IO[str], line: str) -> None:
    file.write(f"{line}\n")
    file.flush()


@contextmanager
def _csv(path: Path | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
        return
    files.refuse_link(path)
    with path.open("w", encoding="utf-8") as file:
        _write(file, _wirespeed.bench_columns())
        yield file


def _ways(given: Options) -> dict[str, Any]:
    warps = [part if part == "max" else _numbers("--mcw", part, int)[0] for part in given.mcw.split(",")]
    return {
        "modes": None if given.modes is None else given.modes.replace("-", "_").split(","),
        "commits": given.commits.split(","),
        "warps_per_core": [None if part == "max" else part for part in warps],
    }


def _numbers(option: str, text: str, kind: type[int] | type[float]) -> list[int] | list[float]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text}: must be numbers with commas between") from None
