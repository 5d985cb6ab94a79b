"""Files and outputs that operators have: read into a scenario, and a scenario written back as their configuration.

`read` recognises a file and tells what is in it, `scenario` makes one of several, and `emit` writes what VPP, testpmd,
l3fwd, Open vSwitch, Suricata or grout take. Sources of formats: the programs' own, DPDK 20.05 to 26.07, VPP 18.10 to
26.06, Open vSwitch 2.12 to 4.0, Suricata 7.0 to 9.0, grout 0.17, CSIT's model 1.5.1.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from wirespeed import scenarios
from wirespeed.operators import captures, catalogue
from wirespeed.operators.emitting import PROGRAMS, Deployment, emit, judge
from wirespeed.operators.facts import Told
from wirespeed.operators.joining import Joined, join
from wirespeed.operators.known import KINDS, read
from wirespeed.operators.signs import findings
from wirespeed.operators.written import document, toml

__all__ = [
    "KINDS",
    "PROGRAMS",
    "Deployment",
    "Joined",
    "Told",
    "emit",
    "import_files",
    "join",
    "judge",
    "read",
    "scenario",
]

PathLike = str | os.PathLike[str]


def scenario(files: Iterable[PathLike], kind: str | None = None) -> str:
    """The scenario that files tell together, as TOML with the source of each setting. Raises InputError, OSError."""
    return str(import_files(files, kind)["scenario"])


def import_files(files: Iterable[PathLike], kind: str | None = None) -> dict[str, Any]:
    """The same with what each file told, what was taken and assumed, conflicts and findings, as JSON has it.

    Of a capture of a mobile core it has the sessions, too; the command `wirespeed import` writes the scenario's files.
    """
    texts, capture = captures.separated(files, kind)
    told = [each for file in texts for each in read(file, kind)]
    if capture is not None:
        told.append(capture.told())
    joined = join(told)
    text = toml(joined, list(dict.fromkeys(each.file for each in told)))
    found = document(joined, told, findings(joined, told, catalogue.resolved(str(scenarios.as_text(text)))), text)
    return found if capture is None else {**found, "mobile": capture.document()}
