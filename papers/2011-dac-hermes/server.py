"""The paper's two systems in one server, of 2011 and of today: a GPU on the server's memory, and one behind PCIe.

    python papers/2011-dac-hermes/server.py [FOLDER]   # some minutes of CPU

Every combination of a machine, a function, a system and a load, three seeds each, the same packets for all systems.
Finished runs are kept in FOLDER (study), so that what was stopped goes on. Beside this file it writes `server.json` and
`server.md`; `docs/study/gpu-in-a-server.md` shows them.

Nothing here is judged: the paper's simulator has no CPU, no NIC and no other memory.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import wirespeed
from wirespeed import quantities as q
from wirespeed.sweep.until import interval

HERE: Final = Path(__file__).parent
REPLICATIONS: Final = 3
PACKETS: Final = {"run.packets": 6_000, "run.warmup": 6_000, "run.curve": []}
# PCIe 2.0 as PacketShader measured it (5.6 GB/s), and a kernel's start there.
# A copy's call takes 6 to 7 us (NVIDIA/gdrcopy).
OF_2011: Final = {
    "machine.processor": "xeon-e3-1230-v2",
    "machine.cores": 2,
    "nic.model": "82599",
    "machine.gpu.preset": "hermes",
    "machine.gpu.link": "44 Gbps",
    "machine.gpu.copy": "6.5 us",
    "machine.gpu.launch": "3.8 us",
    "machine.gpu.overlap": "three_streams",
}
TODAY: Final = {
    "machine.preset": "xeon-platinum-8480",
    "machine.cores": 4,
    "machine.gpu.preset": "h100",
}
MACHINES: Final[dict[str, tuple[str, Mapping[str, Any]]]] = {
    "2011": ("two cores of a Xeon E3-1230 v2, DDR3-1600, 10 Gbps; 8 shader cores of the paper, PCIe 2.0", OF_2011),
    "today": ("four cores of a Xeon Platinum 8480, DDR5-4800, 100 Gbps; an H100's 528 shader cores, PCIe 5.0", TODAY),
}
# The DRAM of the server, for a discrete GPU: its DIMMs and channels.
SAME_MEMORY: Final = {
    "2011": {"machine.gpu.shaders.memory.standard": "ddr3-1600k", "machine.gpu.shaders.memory.channels": 2},
    "today": {"machine.gpu.shaders.memory.standard": "ddr5-4800b", "machine.gpu.shaders.memory.channels": 16},
}
FUNCTIONS: Final[dict[str, str]] = {"forwarding": "forwarding", "rules": "classify"}
SYSTEMS: Final[dict[str, str]] = {
    "cores": "no GPU",
    "discrete": "packets copied to the GPU's own memory, and back what a function changes",
    "discrete, same DRAM": "the same, with the server's DRAM in place of its own",
    "integrated": "the same shader cores on the server's LLC and DRAM",
}
# A load that all carry, and more than any does.
LOADS: Final = {"delay": {"traffic.load": 0.05}, "rate": {"traffic.load": 1.0}}
BATCHES: Final = {"machine.gpu.batch": 256, "machine.gpu.timeout": "50 us"}
METRICS: Final = {"delay": "sojourn_ns.mean", "rate": "carried_mpps"}

Key = tuple[str, str, str, str]
"""Machine, function, system and load."""


def keys() -> list[Key]:
    """All combinations."""
    return list(itertools.product(MACHINES, FUNCTIONS, SYSTEMS, LOADS))


def name(key: Key) -> str:
    """A combination's name as a case of a sweep."""
    return " / ".join(key)


def settings(key: Key) -> dict[str, Any]:
    """What a combination sets."""
    machine, _, system, load = key
    given = dict(PACKETS) | dict(MACHINES[machine][1]) | LOADS[load] | BATCHES
    if system == "cores":
        return {path: value for path, value in given.items() if not path.startswith("machine.gpu")}
    if system == "integrated":
        given["machine.gpu.attached"] = "integrated"
    return given | (dict(SAME_MEMORY[machine]) if system == "discrete, same DRAM" else {})


def measure(folder: Path, jobs: int = 1) -> dict[str, Any]:
    """Runs what is not kept in the folder: of each combination a value a seed."""
    found: dict[str, Any] = {"version": wirespeed.__version__, "cases": {}}
    for function, scenario in FUNCTIONS.items():
        cases = {name(key): settings(key) for key in keys() if key[1] == function}
        study = wirespeed.sweep(scenario, cases=cases, replications=REPLICATIONS, out=folder / function, jobs=jobs)
        wrong = [row for row in study.rows if row["error"]]
        if wrong:
            raise SystemExit(f"{len(wrong)} runs failed; the first, {wrong[0]['case']}: {wrong[0]['error']}")
        for case, key in ((name(key), key) for key in keys() if key[1] == function):
            rows = [row for row in study.rows if row["case"] == case]
            found["cases"][case] = {
                "value": [row[METRICS[key[3]]] for row in rows],
                "limited_by": sorted({row.get("gpu.limited_by") or row["verdict.limit"] for row in rows}),
            }
    return found


def page(document: Mapping[str, Any]) -> str:
    """The tables of the page that shows this."""
    lines: list[str] = []
    for load in LOADS:
        what = "Mean delay at 5 % of line rate (µs)" if load == "delay" else "Packets carried at line rate (Mpps)"
        lines += [f"### {what}", "", "| machine | function | " + " | ".join(SYSTEMS) + " |", "|" + "---|" * 6]
        for machine, function in itertools.product(MACHINES, FUNCTIONS):
            cells = [_cell(document, (machine, function, system, load)) for system in SYSTEMS]
            lines.append(f"| {machine} | {function} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += [
        "### Integrated over discrete",
        "",
        "Less delay, more packets, seed by seed; both on the server's DRAM.",
        "",
    ]
    lines += ["| machine | function | delay | rate | integrated is bound by | discrete by |", "|" + "---|" * 6]
    for machine, function in itertools.product(MACHINES, FUNCTIONS):
        gains = [_gain(document, machine, function, load) for load in LOADS]
        bounds = [_bound(document, (machine, function, s, "rate")) for s in ("integrated", "discrete, same DRAM")]
        lines.append(f"| {machine} | {function} | " + " | ".join(gains + bounds) + " |")
    return "\n".join([*lines, ""])


def _values(document: Mapping[str, Any], key: Key) -> Sequence[float]:
    return document["cases"][name(key)]["value"]


def _cell(document: Mapping[str, Any], key: Key) -> str:
    scale = 1e3 if key[3] == "delay" else 1.0
    mean, wide = interval([value / scale for value in _values(document, key)])
    return f"{q.digits(mean, 3)} ± {q.digits(wide, 2)}"


def _gain(document: Mapping[str, Any], machine: str, function: str, load: str) -> str:
    sign = 1 if load == "rate" else -1
    pairs = zip(
        _values(document, (machine, function, "integrated", load)),
        _values(document, (machine, function, "discrete, same DRAM", load)),
        strict=True,
    )
    mean, wide = interval([sign * 100 * (a / b - 1) for a, b in pairs])
    return f"{'+' if mean > 0 else ''}{q.digits(mean, 3)} ± {q.digits(wide, 2)} %"


def _bound(document: Mapping[str, Any], key: Key) -> str:
    return ", ".join(document["cases"][name(key)]["limited_by"]).replace("_", " ")


def main(arguments: Sequence[str]) -> int:
    """Runs the study and writes what came out."""
    document = measure(Path(arguments[0] if arguments else "study"))
    (HERE / "server.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    text = page(document)
    (HERE / "server.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
