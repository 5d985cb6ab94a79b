"""A GPU in a server: on its memory or behind PCIe, in batches or by kernels that stay; of 2011 and of today.

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
H100: Final = {
    "machine.preset": "xeon-platinum-8480",
    "machine.cores": 4,
    "machine.gpu.preset": "h100",
}
# Zen 4 cores over the HBM3 that they share with it: a quarter of its channels, and of its compute units.
MI300A: Final = {
    "machine.processor": "epyc-9654",
    "machine.cores": 4,
    "machine.dram.standard": "hbm3-6400",
    "machine.dram.channels": 52,
    "nic.model": "connectx-6-dx",
    "machine.gpu.preset": "mi300a",
    "machine.gpu.shaders.cores": 114,
}
MACHINES: Final[dict[str, tuple[str, Mapping[str, Any]]]] = {
    "2011": ("two cores of a Xeon E3-1230 v2, DDR3-1600, 10 Gbps; 8 shader cores of the paper, PCIe 2.0", OF_2011),
    "H100": ("four cores of a Xeon Platinum 8480, DDR5-4800, 100 Gbps; an H100's 528 shader cores, PCIe 5.0", H100),
    "MI300A": ("four Zen 4 cores, a quarter of an MI300A's shader cores and HBM3, 100 Gbps", MI300A),
}
# The DRAM of the server, for a discrete GPU: its DIMMs and channels.
SAME_MEMORY: Final = {
    "2011": {"machine.gpu.shaders.memory.standard": "ddr3-1600k", "machine.gpu.shaders.memory.channels": 2},
    "H100": {"machine.gpu.shaders.memory.standard": "ddr5-4800b", "machine.gpu.shaders.memory.channels": 16},
    "MI300A": {"machine.gpu.shaders.memory.standard": "hbm3-6400", "machine.gpu.shaders.memory.channels": 52},
}
FUNCTIONS: Final[dict[str, str]] = {"forwarding": "forwarding", "rules": "classify"}
STAYS: Final = {"machine.gpu.posting": "persistent", "machine.gpu.batch": 32, "machine.gpu.timeout": "0 ns"}
BATCHES: Final = {"machine.gpu.batch": 256, "machine.gpu.timeout": "50 us"}
SYSTEMS: Final[dict[str, tuple[str, Mapping[str, Any]]]] = {
    "cores": ("no GPU", {}),
    "discrete": ("batches are copied over PCIe", {"machine.gpu.attached": "discrete"} | BATCHES),
    "integrated": ("batches on the server's LLC and DRAM", {"machine.gpu.attached": "integrated"} | BATCHES),
    "not coherent": (
        "batches on the server's DRAM, past all caches, which cores flush",
        {"machine.gpu.attached": "integrated", "machine.gpu.coherent": False} | BATCHES,
    ),
    "discrete, stays": ("a kernel that stays takes tasks over PCIe", {"machine.gpu.attached": "discrete"} | STAYS),
    "integrated, stays": ("and from the server's LLC", {"machine.gpu.attached": "integrated"} | STAYS),
}
"""Those beside cores have the same shader cores over the same DRAM."""
CONTRASTS: Final = (
    ("integrated over discrete, batches", "integrated", "discrete"),
    ("coherent over not coherent, batches", "integrated", "not coherent"),
    ("integrated over discrete, kernels that stay", "integrated, stays", "discrete, stays"),
    ("kernels that stay over batches, discrete", "discrete, stays", "discrete"),
    ("kernels that stay over batches, integrated", "integrated, stays", "integrated"),
)
# A load that most carry, and more than any does.
LOADS: Final = {"delay": {"traffic.load": 0.01}, "rate": {"traffic.load": 1.0}}
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
    given = dict(PACKETS) | dict(MACHINES[machine][1]) | LOADS[load]
    if system == "cores":
        return {path: value for path, value in given.items() if not path.startswith("machine.gpu")}
    given |= dict(SYSTEMS[system][1])
    return given | (dict(SAME_MEMORY[machine]) if system.startswith("discrete") else {})


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
        what = "Mean delay at 1 % of line rate (µs)" if load == "delay" else "Packets carried at line rate (Mpps)"
        lines += [f"### {what}", "", "| machine | function | " + " | ".join(SYSTEMS) + " |", "|" + "---|" * (2 + len(SYSTEMS))]
        for machine, function in itertools.product(MACHINES, FUNCTIONS):
            cells = [_cell(document, (machine, function, system, load)) for system in SYSTEMS]
            lines.append(f"| {machine} | {function} | " + " | ".join(cells) + " |")
        lines.append("")
    for title, one, other in CONTRASTS:
        lines += [f"### {title.capitalize()}", "", "Less delay and more packets, seed by seed.", ""]
        lines += [f"| machine | function | delay | rate | {one}: bound by | {other}: bound by |", "|" + "---|" * 6]
        for machine, function in itertools.product(MACHINES, FUNCTIONS):
            gains = [_gain(document, (machine, function), (one, other), load) for load in LOADS]
            bounds = [_bound(document, (machine, function, system, "rate")) for system in (one, other)]
            lines.append(f"| {machine} | {function} | " + " | ".join(gains + bounds) + " |")
        lines.append("")
    return "\n".join(lines)


def _values(document: Mapping[str, Any], key: Key) -> Sequence[float]:
    return document["cases"][name(key)]["value"]


def _cell(document: Mapping[str, Any], key: Key) -> str:
    scale = 1e3 if key[3] == "delay" else 1.0
    mean, wide = interval([value / scale for value in _values(document, key)])
    return f"{q.digits(mean, 3)} ± {q.digits(wide, 2)}"


def _gain(document: Mapping[str, Any], of: tuple[str, str], systems: tuple[str, str], load: str) -> str:
    one, other = (_values(document, (*of, system, load)) for system in systems)
    found = [b / a if load == "delay" else a / b for a, b in zip(one, other, strict=True)]
    mean, wide = interval(found)
    # Of runs that carry the same it is a rounding's.
    return f"{q.digits(mean, 3)} ± {q.digits(wide, 2) if wide > 1e-9 else 0} times"


def _bound(document: Mapping[str, Any], key: Key) -> str:
    return ", ".join(document["cases"][name(key)]["limited_by"]).replace("_", " ")


def main(arguments: Sequence[str]) -> int:
    """Runs the study and writes what came out."""
    document = measure(Path(arguments[0] if arguments else "study"), jobs=2)
    (HERE / "server.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    text = page(document)
    (HERE / "server.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
