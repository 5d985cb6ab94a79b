"""`wirespeed import`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from wirespeed import files, operators, scenarios
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.options import QuietOpt, TablesOrJsonOpt, ThreadsOpt
from wirespeed.commands.output import emit, emit_json, say, show, stoppable
from wirespeed.errors import InputError, each_of
from wirespeed.operators import beside, captures, catalogue, signs, text, written
from wirespeed.progress import Bar

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed import lscpu.json hardware.txt runtime.txt --out mine.toml\n\n"
    "  wirespeed import pmd-perf-show.txt --compare\n\n"
    "  wirespeed import suricata.yaml stats.log --format json | jq .findings\n\n"
    "  wirespeed import n3-n4.pcap lscpu.json --out upf.toml\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C."
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    given: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Outputs and configurations, of one machine; a capture.", show_default=False
        ),
    ]
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", help="Read all files as this kind; told by their content if left out.", show_default=False
        ),
    ] = None
    out: Annotated[Path | None, options.out("Write the scenario to this file.", metavar="FILE")] = None
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Run the scenario, at other RX rings too: predictions beside measurements."),
    ] = False
    packets: Annotated[int, options.count("--packets", "Packets of each run of --compare.", 1000)] = beside.PACKETS
    threads: ThreadsOpt = None
    form: TablesOrJsonOpt = "table"
    quiet: QuietOpt = False


@app.command("import", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Read what an operator has (lscpu, VPP, DPDK, Suricata, PFCP, …) into a scenario; say what limits."""
    texts, capture = captures.separated(given.given, given.kind)
    _judge(given, capture is not None)
    told = [each for found in each_of(texts, lambda file: operators.read(file, given.kind)) for each in found]
    if capture is not None:
        told.append(capture.told(given.out))
    joined = operators.join(told)
    names = list(dict.fromkeys(each.file for each in told))
    scenario = written.toml(joined, names)
    found = signs.findings(joined, told, catalogue.resolved(str(scenarios.as_text(scenario))))
    document = written.document(joined, told, found, scenario)
    if capture is not None:
        document["mobile"] = capture.document()
    if given.form == "table":
        show(text.page(joined, told, found))
        if capture is not None:
            show(text.mobile(capture))
    if given.compare:
        with stoppable(), Bar(quiet=given.quiet) as bar:
            pairs, rings = beside.compare(joined, told, given.packets, given.threads, bar)
        document["compared"] = beside.document(pairs, rings)
        if given.form == "table":
            emit("")
            show(text.beside(pairs, rings, given.packets))
    if given.form == "json":
        emit_json(document)
    if capture is not None and given.out is not None:
        capture.write(given.out)
    _write(given, scenario)
    return 0


def _judge(given: Options, has_capture: bool) -> None:
    """Raises InputError for a file that would be overwritten by what is made of it."""
    if has_capture and given.compare:
        raise InputError("--compare: a capture has no measurements to stand beside; import the others' files alone")
    if given.out is None:
        return
    if given.out.is_dir():
        raise InputError(f"--out {given.out}: is a folder; name a file, such as {given.out / 'scenario.toml'}")
    for made in (given.out, *(captures.names(given.out) if has_capture else ())):
        if any(file.exists() and made.exists() and file.samefile(made) for file in given.given):
            of = "is one" if made == given.out else f"would write {made.name}, one"
            raise InputError(f"--out {given.out}: {of} of the files that are read; name another file")


def _write(given: Options, scenario: str) -> None:
    was_there = given.out is not None and given.out.exists()
    if given.out is not None:
        files.write(given.out, scenario)
    if given.quiet:
        return
    if given.out is None:
        say("add --out FILE to keep the scenario")
    else:
        say(f"{'replaced' if was_there else 'wrote'} {given.out}: wirespeed run {shlex.quote(str(given.out))}")
