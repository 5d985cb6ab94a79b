"""What it would take for the lines that do not hold: the same points on other machines.

    python papers/2011-dac-hermes/what_if.py        # some minutes of CPU; what it prints stands in DEVIATIONS.md

Nothing here is judged, and nothing of it is in the preset: each row changes what the paper does not tell, or
contradicts it.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from wirespeed import _wirespeed

STUDY: Final = tomllib.loads((Path(__file__).parent / "study.toml").read_text(encoding="utf-8"))
CORES: Final = (8, 17, 28)
PACKETS: Final = 524_288
SATURATED_MPPS: Final = 20_000.0
# Changes to `gpu` of the preset, table by table.
MEMORIES: Final[dict[str, Mapping[str, Any]]] = {
    "the preset": {},
    "twice the channels": {"memory": {"channels": 16}, "l2": {"banks": 16, "size": "1 MiB"}},
    "four times": {"memory": {"channels": 32}, "l2": {"banks": 32, "size": "2 MiB"}},
    "eight times": {"memory": {"channels": 64}, "l2": {"banks": 64, "size": "4 MiB"}},
    "an L2 of 16 MiB with 64 banks": {"l2": {"size": "16 MiB", "ways": 16, "banks": 64}},
    "an L1 of 16 KiB a core": {"l1": {"size": "16 KiB", "ways": 4, "latency": 1, "banks": 1}},
    "8 lanes at a time": {"simd_width": 8},
    "4 lanes at a time": {"simd_width": 4},
    "8 lanes, twice the channels": {"simd_width": 8, "memory": {"channels": 16}, "l2": {"banks": 16, "size": "1 MiB"}},
    "8 lanes, four times": {"simd_width": 8, "memory": {"channels": 32}, "l2": {"banks": 32, "size": "2 MiB"}},
}
SLOTS: Final[dict[str, Mapping[str, str]]] = {
    "slots of 128 B": {"slot": "128 B", "size": "128 MB"},
    "4,096 slots of 2 KiB": {"slot": "2 KiB", "size": "8 MiB"},
    "65,536 slots of 64 B": {"slot": "64 B", "size": "4 MiB"},
}


def point(
    application: str,
    mpps: float = SATURATED_MPPS,
    gpu: Mapping[str, Any] | None = None,
    buffer: Mapping[str, str] | None = None,
    dcq: bool = True,
    packets: int | None = None,
) -> dict[str, Any]:
    preset: dict[str, Any] = json.loads(_wirespeed.gpu_preset("hermes"))
    of, shared = STUDY["applications"][application], STUDY["workload"]
    hermes = copy.deepcopy(preset["hermes"])
    hermes["buffer"] |= buffer or {}
    if not dcq:
        del hermes["dcq"]
    machine = copy.deepcopy(preset["gpu"])
    for name, value in (gpu or {}).items():
        machine[name] = machine.get(name, {}) | value if isinstance(value, Mapping) else value
    return {
        "workload": {
            "application": of["application"],
            "kernel": {"registers": of["registers"], "shared": 0},
            "traffic": {"profile": shared["profile"]},
            "packets": of["recorded"],
            "rules": {"count": shared["rules"]},
            "strings": {"count": shared["strings"], "depth": shared["depth"]},
            "fragment": {"mtu": shared["mtu"]},
        },
        "gpu": machine,
        "system": {"hermes": hermes},
        "load": {"packets": f"{mpps!r} Mpps"},
        "arrivals": shared["arrivals"],
        "packets": packets or of["packets"],
        "runs": 1,
        "seed": 1,
    }


def run(points: Sequence[Mapping[str, Any]], measure: str) -> list[float]:
    found = [0.0] * len(points)

    def keep(place: int, outcome: str) -> None:
        found[place] = float(json.loads(outcome)[measure]["value"])

    _wirespeed.run_simt([json.dumps(each) for each in points], keep, None)
    return found


def scaling(name: str, gpu: Mapping[str, Any], buffer: Mapping[str, str] | None = None) -> None:
    cells = []
    for application in ("rtl", "dec_ttl"):
        points = [point(application, gpu={**gpu, "cores": n}, buffer=buffer, packets=PACKETS) for n in CORES]
        mpps = run(points, "throughput_mpps")
        cells.append(f"{mpps[0]:,.0f}: " + ", ".join(f"{b / a:.2f}" for a, b in pairwise(mpps)))
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    print("| machine | RTL: Mpps on 8 cores, 8 to 17, 17 to 28 | DecTTL |\n|---|---|---|")
    for name, gpu in MEMORIES.items():
        scaling(name, gpu)
    for name, buffer in SLOTS.items():
        scaling(name, {}, buffer)

    mcw = (8, 16, 24, 32)
    print("\n| pipeline, clocks | " + " | ".join(f"Hermes-{n}, us" for n in mcw) + " |\n|---|" + "---|" * len(mcw))
    for clocks in (24, 16, 12, 8):
        (capacity,) = run([point("classifier", gpu={"pipeline": clocks})], "throughput_mpps")
        line = STUDY["runs"]["burst"] * capacity
        delays = run([point("classifier", line, {"pipeline": clocks, "mcw": n}) for n in mcw], "delay_ns")
        print(f"| {clocks} | " + " | ".join(f"{ns / 1e3:,.0f}" for ns in delays) + " |", flush=True)

    loads = (0.3, 0.8, 0.95, 1.5, 4.0)
    print(
        "\n| delay with the DCQ over without, at load | "
        + " | ".join(map(str, loads))
        + " |\n|---|"
        + "---|" * len(loads)
    )
    for name in ("dec_ttl", "rtl", "classifier", "dpi"):
        (capacity,) = run([point(name)], "throughput_mpps")
        both = [[point(name, load * capacity, dcq=dcq) for load in loads] for dcq in (True, False)]
        with_it, without = (run(points, "delay_ns") for points in both)
        cells = " | ".join(f"{a / b:.3f}" for a, b in zip(with_it, without, strict=True))
        print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
