"""Advice: which techniques pay on a machine with its traffic, what they cost, and what to set."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wirespeed import files
from wirespeed.advise import advice, bench, tabled
from wirespeed.errors import InputError
from wirespeed.progress import Callback
from wirespeed.scenarios import Overrides, as_text
from wirespeed.sweep.plan import PathLike
from wirespeed.tables import Table, written

if TYPE_CHECKING:
    import altair

__all__ = ["Advice", "advise"]

DOCUMENT_FILE: Final = "advice.json"
PAGE_FILE: Final = "advice.html"
TABLES: Final = ("techniques", "combinations")
FILES: Final = (DOCUMENT_FILE, PAGE_FILE, *(f"{name}.{ending}" for name in TABLES for ending in ("parquet", "csv")))


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice that was found. `document` is all of it, as JSON has it."""

    document: Mapping[str, Any]

    @property
    def settings(self) -> list[str]:
        """What to set: overrides as `set` of `wirespeed.run` takes them."""
        found: list[str] = self.document["best"]["set"]
        return found

    @property
    def command(self) -> str:
        """The command line that runs the best set."""
        return str(self.document["best"]["command"])

    @property
    def techniques(self) -> Table:
        """A row a technique, the best first: cost, settings, and what it changes alone and with others, in percent."""
        return tabled.techniques(self.document)

    @property
    def combinations(self) -> Table:
        """A row a combination of the best few: what it changes, in percent."""
        return tabled.combinations(self.document)

    def write(self, folder: str | os.PathLike[str], force: bool = False) -> list[Path]:
        """Writes advice.json, advice.html, and both tables as Parquet and CSV, all or none; returns the files.

        Raises OSError where that is impossible, and InputError where links, or without `force` files that wirespeed did
        not write, are in the way.
        """
        from wirespeed.advise.page import page  # drawing costs half a second to import

        texts: dict[str, str | bytes] = {
            DOCUMENT_FILE: json.dumps(self.document, indent=2) + "\n",
            PAGE_FILE: page(self.document),
        }
        return files.write_texts(folder, texts | written([self.techniques, self.combinations]), force=force)

    def plot(self, what: str | None = None) -> altair.TopLevelMixin:
        """A chart for a notebook (Altair): what each technique alone changes of "rate", "ndr" or "p99".

        What techniques are ranked by if None. Raises InputError for another, and where no technique was tried.
        """
        from wirespeed.advise.page import chart
        from wirespeed.report import charts

        allowed = [] if self.document.get("answered") else ["rate", "ndr", "p99"]
        what = what if what is not None else self.document.get("goal", "rate")
        if what not in allowed:
            raise InputError(f"plot {what!r}: this advice has {', '.join(allowed) or 'no technique that was tried'}")
        return charts.for_notebook(chart(self.document, what))

    def _repr_html_(self) -> str:
        from wirespeed.advise.page import fragment

        return fragment(self.document)

    def __repr__(self) -> str:
        from wirespeed.advise.text import headline

        return f"<wirespeed advice: {headline(self.document)}>"


def advise(
    scenario: PathLike | Mapping[str, Any],
    capture: PathLike | None = None,
    table: PathLike | None = None,
    set: Overrides = None,
    goal: str = "rate",
    target: str | None = None,
    without: Sequence[str] = (),
    also: Sequence[str] = (),
    packets: int = bench.PACKETS,
    jobs: int | None = None,
    out: PathLike | None = None,
    progress: Callback | None = None,
) -> Advice:
    """Finds which techniques pay on a scenario's machine with its traffic.

    Every technique that fits is switched on and off, in a factorial design of resolution IV, all on the same packets,
    and run alone; the best few in every combination; the best set again by longer runs, until its rate is known to
    1 %. `goal` is "rate", at saturation, "ndr", the highest rate without loss, or "p99", at the scenario's load.
    `target` is a rate such as "20 Mpps": the cheapest set that carries it is found too; where the machine carries it as
    it is, that is all that is answered (`answered` in the document), after one run. `without` leaves out
    techniques, `also` tries those that are tried only where they are asked for (a GPU). `packets` are those of a run of
    the comparison. `out` keeps finished runs, so that advice that was stopped goes on. `jobs` runs are under way at a
    time, in threads; nothing depends on it but the time it takes.

    Raises InputError before anything runs for bad input. Ctrl-C raises KeyboardInterrupt.

        >>> advice = wirespeed.advise("forwarding", target="18 Mpps")         # doctest: +SKIP
        >>> wirespeed.run("forwarding", set=advice.settings)                  # doctest: +SKIP
    """
    asked = bench.Asked(
        as_text(scenario), capture, table, set, goal, target, without, packets, jobs, out, progress, also
    )
    return Advice(advice.advise(asked))
