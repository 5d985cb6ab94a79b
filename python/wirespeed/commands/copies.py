"""`wirespeed copies`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from wirespeed import copies
from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.output import emit_json, show, stoppable
from wirespeed.errors import InputError

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed copies receive --capture trace.pcap.gz --reads\n\n"
    "  wirespeed copies receive --set workload.session_packets=10 --set workload.nic_data=placed\n\n"
    "  wirespeed copies messages --set machine.cpus=8\n\n"
    "Settings begin with workload, machine (caches, CPUs) or costs (clocks). The same copies on a whole server: "
    "wirespeed run socket and wirespeed run vhost.\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C."
)


class Kind(StrEnum):
    """What is copied."""

    stream = "stream"
    receive = "receive"
    vhost = "vhost"
    messages = "messages"


# The fewest CPUs a workload makes sense with; messages go round at least three.
_CPUS: Final = {Kind.stream: 1, Kind.receive: 1, Kind.vhost: 2, Kind.messages: 3}

app = typer.Typer()


def _a_form(given: str) -> str:
    if given not in ("table", "json"):
        raise InputError(f"--format {given}: allowed are table and json")
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    kind: Annotated[Kind, typer.Argument(metavar="WORKLOAD", help="stream, receive, vhost or messages.")]
    capture: Annotated[Path | None, options.capture("Receive the TCP segments of this capture.")] = None
    reads: Annotated[
        bool | None,
        typer.Option("--reads/--no-reads", help="Whether what is received is read.", show_default=False),
    ] = None
    settings: Annotated[list[str] | None, options.setting("")] = None
    form: Annotated[str, options.form("How to print.", None, metavar="table|json", callback=_a_form)] = "table"


@app.command("copies", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Compare a copy table with other ways to copy, on the CPU of the paper that describes it."""
    settings = _settings(given.settings or [])
    workload = _workload(given, settings["workload"])
    machine = {"cpus": _CPUS[given.kind], **settings["machine"]}
    if "table" in machine:
        raise InputError("machine.table: each method says by itself whether the table is there (remove it)")
    with stoppable():
        rows = copies.compare(workload, machine=machine, costs=settings["costs"])
    if given.form == "json":
        emit_json({"workload": workload, "machine": machine, "methods": rows})
    else:
        item = {Kind.stream: "round", Kind.messages: "message"}.get(given.kind, "packet")
        show(Text(f"{copies.sentence(rows, item)}\n"))
        show(copies.table(rows, item))
    return 0


def _workload(given: Options, settings: dict[str, Any]) -> dict[str, Any]:
    """What is copied. Raises InputError for options that do not go with the kind."""
    workload: dict[str, Any] = {"kind": given.kind.value, **settings}
    if given.capture is not None:
        if given.kind is not Kind.receive:
            raise InputError(f"--capture goes with the workload receive, not with {given.kind.value}")
        workload["packets"] = {**workload.get("packets", {}), "capture": str(given.capture)}
    if given.reads is not None:
        if given.kind not in (Kind.receive, Kind.messages):
            raise InputError(f"--reads goes with the workloads receive and messages, not with {given.kind.value}")
        workload["reads"] = given.reads
    return workload


def _settings(given: list[str]) -> dict[str, dict[str, Any]]:
    """`workload.x=1` and so on as nested tables."""
    out: dict[str, dict[str, Any]] = {"workload": {}, "machine": {}, "costs": {}}
    for text in given:
        path, equals, value = text.partition("=")
        keys = [key.strip() for key in path.split(".")]
        if not equals or len(keys) < 2 or keys[0] not in out:
            raise InputError(
                f"--set {text}: a path and a value are wanted that begin with {', '.join(out)}, for example "
                "workload.session_packets=10"
            )
        at: dict[str, Any] = out[keys[0]]
        for key in keys[1:-1]:
            at = at.setdefault(key, {})
            if not isinstance(at, dict):
                raise InputError(f"--set {text}: `{key}` has a value already and is no table")
        try:
            at[keys[-1]] = json.loads(value)
        except ValueError:
            at[keys[-1]] = value.strip()
    return out
