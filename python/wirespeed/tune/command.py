"""The command `wirespeed tune`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Final, Literal

import typer
from rich.console import Console

from wirespeed import terminal
from wirespeed.progress import Bar
from wirespeed.tune import text, tuning

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed tune upf --knob nic.rx_descriptors=128..4096*2 --knob mempool.size=8192..262144*2 --out tuned\n\n"
    "  wirespeed tune my.toml --knob nic.rx_descriptors=256,1024 --knob mempool.kind=fifo,lifo --metric p99 "
    "--loss-limit 0.001\n\n"
    "Values: a list (256,512), a range by a factor (128..4096*2) or by a step (16..64+16).\n\n"
    "A search that was stopped goes on where it was when it is run again with the same journal or folder.\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C."
)
_TRAFFIC, _SEARCH, _OUTPUT = "Traffic and machine", "Search", "Output"


def add(app: typer.Typer, show: Callable[[str], None], stoppable: Callable[[], AbstractContextManager[None]]) -> None:
    """Adds the command to `app`; `show` prints to stdout, `stoppable` stands around what Ctrl-C may end."""

    @app.command("tune", epilog=_EPILOG)
    def tune(
        scenario: Annotated[
            str, typer.Argument(metavar="SCENARIO", help="A TOML file, or the name of a shipped scenario.")
        ],
        knobs: Annotated[
            list[str],
            typer.Option(
                "--knob",
                metavar="PATH=VALUES",
                help="A setting and the values to try, for example [bold]nic.rx_descriptors=128..4096*2[/bold]. "
                "May be given several times.",
                show_default=False,
                rich_help_panel=_SEARCH,
            ),
        ],
        metric: Annotated[
            str,
            typer.Option(
                "--metric", metavar="METRIC", help=f"{', '.join(text.METRIC_WORDS)}.", rich_help_panel=_SEARCH
            ),
        ] = "carried_mpps",
        loss_limit: Annotated[
            float | None,
            typer.Option(
                "--loss-limit",
                metavar="SHARE",
                help="The largest loss that the best settings may have, for example 0.001; no limit if left out.",
                rich_help_panel=_SEARCH,
            ),
        ] = None,
        evaluations: Annotated[
            int,
            typer.Option(
                "--evaluations", metavar="N", min=1, help="Points of the joint search.", rich_help_panel=_SEARCH
            ),
        ] = tuning.EVALUATIONS,
        grid: Annotated[
            bool, typer.Option("--grid", help="Also run every combination, as the truth.", rich_help_panel=_SEARCH)
        ] = False,
        seed: Annotated[
            int,
            typer.Option(
                "--seed",
                metavar="N",
                min=0,
                help="Seed of the search; that of the simulation is --set run.seed=N.",
                rich_help_panel=_SEARCH,
            ),
        ] = 0,
        batch: Annotated[
            int,
            typer.Option(
                "--batch",
                metavar="N",
                min=1,
                help="Points that are proposed at a time: more keep more cores busy, fewer learn sooner.",
                rich_help_panel=_SEARCH,
            ),
        ] = tuning.BATCH,
        jobs: Annotated[
            int | None,
            typer.Option(
                "--jobs",
                metavar="N",
                min=1,
                help="Evaluations at a time; as many as there are cores if left out. The result does not depend on it.",
                show_default=False,
                rich_help_panel=_SEARCH,
            ),
        ] = None,
        journal: Annotated[
            Path | None,
            typer.Option(
                "--journal",
                metavar="FILE",
                help="Keep measurements in this file, and use those that are in it.",
                show_default="journal.jsonl in the folder of --out",
                rich_help_panel=_SEARCH,
            ),
        ] = None,
        capture: Annotated[
            Path | None,
            typer.Option("--capture", metavar="FILE", help="Use this capture as traffic.", rich_help_panel=_TRAFFIC),
        ] = None,
        table: Annotated[
            Path | None,
            typer.Option("--table", metavar="FILE", help="Use this prefix table.", rich_help_panel=_TRAFFIC),
        ] = None,
        settings: Annotated[
            list[str] | None,
            typer.Option(
                "--set",
                metavar="PATH=VALUE",
                help="Override one setting at every point. May be given several times.",
                show_default=False,
                rich_help_panel=_TRAFFIC,
            ),
        ] = None,
        out: Annotated[
            Path | None,
            typer.Option(
                "--out",
                metavar="DIR",
                help="Write tuning.json, tuning.html and the journal to this folder.",
                rich_help_panel=_OUTPUT,
            ),
        ] = None,
        form: Annotated[
            Literal["table", "json"],
            typer.Option("--format", help="Tables to read, or one JSON object.", rich_help_panel=_OUTPUT),
        ] = "table",
        quiet: Annotated[
            bool, typer.Option("--quiet", "-q", help="Show no progress.", rich_help_panel=_OUTPUT)
        ] = False,
    ) -> int:
        """Search the settings that are best together; compare with one at a time, ResQ's rule and every combination."""
        if journal is None and out is not None:
            journal = out / tuning.JOURNAL_FILE
        with stoppable(), Bar(quiet=quiet, unit="points") as bar:
            found = tuning.tune(
                scenario,
                knobs,
                metric,
                loss_limit,
                evaluations,
                grid,
                seed,
                jobs,
                batch,
                journal,
                capture,
                table,
                settings,
                bar,
            )
        files = found.write(out) if out is not None else []
        if form == "json":
            show(json.dumps(found.document, indent=2, allow_nan=False))
        else:
            show(terminal.text(text.summary(found.document), Console()).rstrip("\n"))
            show(f"\nRun the best\n  {found.document['command']}")  # in one piece, to be copied
        if files and not quiet:
            print(f"wirespeed: wrote {', '.join(file.name for file in files)} to {out}", file=sys.stderr)
        return 0
