"""`wirespeed explore`."""

from __future__ import annotations

import contextlib
import webbrowser
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from wirespeed.commands import options
from wirespeed.commands.fields import spread
from wirespeed.commands.options import ThreadsOpt, Traffic
from wirespeed.commands.output import emit, say, say_refused

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed explore\n\n"
    "  wirespeed explore my.toml --capture trace.pcap.gz --port 8000\n\n"
    "  wirespeed explore forwarding --set machine.cores=6 --open\n\n"
    "Exit code: 0 ended by Ctrl-C, 2 bad input, or a port in use."
)

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Traffic):
    """What the command line says."""

    scenario: Annotated[
        str,
        typer.Argument(metavar="SCENARIO", help="A TOML file, or the name of a shipped scenario."),
    ] = "forwarding"
    port: Annotated[
        int,
        typer.Option("--port", metavar="N", min=0, max=65_535, help="Port on 127.0.0.1; 0 is a free one."),
    ] = 0
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False
    threads: ThreadsOpt = None


@app.command("explore", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Move sliders on a page of this computer: closed forms answer at once, and short runs behind them."""
    # The server and the report's charts cost a second to import: other commands do without.
    from wirespeed.explore.place import Given
    from wirespeed.explore.server import Server, serve
    from wirespeed.explore.talk import Talk

    settings = tuple(options.one_of_each(given.settings) or ())
    about = Talk(Given(given.scenario, given.capture, given.table, settings, given.seed), given.threads, say_refused)
    try:
        server = Server(about, given.scenario, given.port)
    except BaseException:
        about.close()
        raise
    # From the moment that it is told how.
    with contextlib.suppress(KeyboardInterrupt):
        emit(server.url)
        say("Ctrl-C ends it. The page is for this computer alone; nothing is sent elsewhere.")
        if given.browser:
            webbrowser.open(server.url)
        serve(server)
    say("ended")
    return 0
