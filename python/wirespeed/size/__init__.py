"""Sizing: the least machine that carries a rate with little enough loss, and soon enough."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wirespeed import files, scenarios
from wirespeed.errors import InputError
from wirespeed.progress import Callback
from wirespeed.scenarios import Overrides
from wirespeed.size import aim, sizing, tabled
from wirespeed.tables import Table, written

if TYPE_CHECKING:
    import altair

__all__ = ["Sizing", "size"]

DOCUMENT_FILE: Final = "size.json"
PAGE_FILE: Final = "size.html"
SCENARIO_FILE: Final = "size.toml"
FILES: Final = (DOCUMENT_FILE, PAGE_FILE, SCENARIO_FILE, "tried.parquet", "tried.csv")


@dataclass(frozen=True, slots=True)
class Sizing:
    """A machine that was sized. `document` is all of it, as JSON has it."""

    document: Mapping[str, Any]
    scenario: str
    """TOML that `run` takes: the machine that meets the target, or falls short by least, under that rate."""

    @property
    def met(self) -> bool:
        """Whether a machine was found that meets the target."""
        return bool(self.document["met"])

    @property
    def settings(self) -> list[str]:
        """What to set, as `set` of `wirespeed.run` takes it; nothing where the machine is enough as it is."""
        found: list[str] = self.document["set"]
        return found

    @property
    def command(self) -> str:
        """The command line that runs that machine under the target."""
        return str(self.document["command"])

    @property
    def tried(self) -> Table:
        """A row a machine that was tried: its dimensions, whether it meets the target, its rate, loss and p99."""
        return tabled.tried(self.document)

    def write(self, folder: str | os.PathLike[str], force: bool = False) -> list[Path]:
        """Writes size.json, size.html, size.toml, and `tried` as Parquet and CSV, all or none; returns the files.

        Raises OSError where that is impossible, and InputError where links, or without `force` files that wirespeed did
        not write, are in the way.
        """
        from wirespeed.size.page import page  # drawing costs half a second to import

        texts: dict[str, str | bytes] = {
            DOCUMENT_FILE: json.dumps(self.document, indent=2) + "\n",
            PAGE_FILE: page(self.document),
            SCENARIO_FILE: self.scenario,
        }
        return files.write_texts(folder, texts | written([self.tried]), force=force)

    def plot(self) -> altair.TopLevelMixin:
        """A chart for a notebook (Altair): the rate of each machine that was tried, over its cores.

        Raises InputError where all have as many cores.
        """
        from wirespeed.report import charts
        from wirespeed.size.page import chart

        drawn = chart(self.document)
        if drawn is None:
            raise InputError("plot: all machines that were tried have as many cores; document['tried'] has them")
        return charts.for_notebook(drawn)

    def _repr_html_(self) -> str:
        from wirespeed.size.page import fragment

        return fragment(self.document)

    def __repr__(self) -> str:
        from wirespeed.size.text import headline

        return f"<wirespeed size: {headline(self.document)}>"


def size(
    scenario: str | os.PathLike[str] | Mapping[str, Any],
    target: str,
    loss: float = aim.LOSS,
    p99: str | None = None,
    vary: Iterable[str] | Mapping[str, object] = (),
    fix: Iterable[str] = (),
    least: bool = False,
    packets: int | None = None,
    capture: str | os.PathLike[str] | None = None,
    table: str | os.PathLike[str] | None = None,
    set: Overrides = None,
    seed: int | None = None,
    threads: int | None = None,
    progress: Callback | None = None,
) -> Sizing:
    """Finds the least machine that carries `target`, such as "40 Mpps" or "90 Gbps", for a scenario's traffic.

    At most `loss` may be lost, a share, and the 99th percentile of the sojourn may be at most `p99`, such as "20 us".
    The machine is tried as it is first; where it meets the target, that is the answer, and `least` asks for less than
    it. The cheapest machine has the fewest cores; rings, bursts and ways stay where they are enough.
    `vary` gives the values of a dimension, `{"cores": range(1, 17), "rings": [512, 1024]}` or `["cores=1..16"]`, and
    `fix` those that stay: `["burst", "rings=1024"]`. `packets` bounds how many a machine is confirmed with, 3 / `loss`
    if None, which is what shows that loss. `threads` runs are made at a time, as many as there are cores if None; the
    result does not depend on it.

    Raises InputError for bad input, all of it at once. Ctrl-C raises KeyboardInterrupt.

        >>> found = wirespeed.size("forwarding-64b", "60 Mpps", p99="20 us")       # doctest: +SKIP
        >>> wirespeed.run("forwarding-64b", set=found.settings)                    # doctest: +SKIP
    """
    given = scenarios.as_text(scenario)
    wish = aim.Wish(given, target, loss, p99, vary, fix, least, packets, capture, table, set, seed, threads, progress)
    return Sizing(*sizing.size(wish))
