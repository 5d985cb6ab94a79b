"""The command `wirespeed advise`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Final

import typer

from wirespeed import files, options, terminal
from wirespeed.advise import FILES, Advice, advice, bench, text
from wirespeed.console import Console
from wirespeed.options import CaptureOpt, EachPointSetOpt, ForceOpt, QuietOpt, TableOpt, TablesOrJsonOpt
from wirespeed.progress import Bar

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed advise forwarding\n\n"
    "  wirespeed advise my.toml --capture trace.pcap.gz --target '12 Mpps'\n\n"
    "  wirespeed advise upf --goal p99 --without core\n\n"
    "Exit code: 0 fine, 2 bad input, 130 stopped by Ctrl-C."
)
_ADVICE: Final = "Advice"
DEFAULT_FOLDER: Final = "wirespeed-advice"


def add(app: typer.Typer, show: Callable[[str], None], stoppable: Callable[[], AbstractContextManager[None]]) -> None:
    """Adds the command to `app`; `show` prints to stdout, `stoppable` stands around what Ctrl-C may end."""

    @app.command("advise", epilog=_EPILOG)
    def advise(
        scenario: Annotated[
            str, typer.Argument(metavar="SCENARIO", help="A TOML file, or the name of a shipped scenario.")
        ],
        goal: Annotated[
            str,
            typer.Option(
                "--goal",
                help="What techniques are ranked by: rate (at saturation), ndr (without loss) or p99.",
                rich_help_panel=_ADVICE,
            ),
        ] = "rate",
        target: Annotated[
            str | None,
            typer.Option(
                "--target",
                metavar="RATE",
                help="Also find the cheapest set that carries this without loss: [bold]'20 Mpps'[/bold], '90 Gbps'.",
                show_default=False,
                rich_help_panel=_ADVICE,
            ),
        ] = None,
        without: Annotated[
            list[str] | None,
            typer.Option(
                "--without",
                metavar="NAME",
                help="Leave out this technique. May be given several times.",
                show_default=False,
                rich_help_panel=_ADVICE,
            ),
        ] = None,
        packets: Annotated[
            int,
            options.count("--packets", "Packets of each run of the comparison.", rich_help_panel=_ADVICE),
        ] = bench.PACKETS,
        jobs: Annotated[int | None, options.jobs("Processes", _ADVICE)] = None,
        capture: CaptureOpt = None,
        table: TableOpt = None,
        settings: EachPointSetOpt = None,
        out: Annotated[Path, options.out("Keep finished runs, advice.json and advice.html here.")] = Path(
            DEFAULT_FOLDER
        ),
        force: ForceOpt = False,
        form: TablesOrJsonOpt = "table",
        quiet: QuietOpt = False,
    ) -> int:
        """Say which techniques pay on this machine with this traffic, what they cost, and what to set."""
        files.judge(out, FILES, force)
        with stoppable(), Bar(quiet=quiet, unit="runs") as bar:
            asked = bench.Asked(
                scenario,
                capture,
                table,
                settings,
                goal,
                target,
                without or [],
                packets,
                jobs,
                out,
                bar,
                in_processes=True,
            )
            found = Advice(advice.advise(asked))
        written = found.write(out, force)
        if form == "json":
            show(json.dumps(found.document, indent=2, allow_nan=False))
        else:
            show(terminal.text(text.summary(found.document), Console()).rstrip("\n"))
            for label, command in text.commands(found.document):
                show(f"\n{label}\n  {command}")  # in one piece, to be copied
        if not quiet:
            for refused in asked.refused:
                print(f"wirespeed: {refused}", file=sys.stderr)
            print(f"wirespeed: wrote {', '.join(file.name for file in written)} to {out}", file=sys.stderr)
        return 0
