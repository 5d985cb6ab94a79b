"""What it would take for the lines that do not hold: the same points on other machines.

    python papers/2011-dac-hermes/what_if.py        # some minutes of CPU; what it prints stands in DEVIATIONS.md

Nothing here is judged, and nothing of it is in the preset: each row changes what the paper does not tell, or
contradicts it. Memory answers in order of issue, as the preset's does, but for the two rows that say so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from wirespeed import _wirespeed
from wirespeed.papers import Kept, Request, find, no_progress
from wirespeed.papers.rooms.zhu_2011 import Setting, Study

STUDY: Final = Study(Request(find("2011-dac-hermes"), "letter", frozenset(), False, 1, None, Kept(), no_progress))
CORES: Final = (8, 17, 28)
PACKETS: Final = 524_288
# Changes to `gpu` of the preset, table by table.
MEMORIES: Final[dict[str, Mapping[str, Any]]] = {
    "the preset": {},
    "twice the channels": {"memory": {"channels": 16}, "l2": {"banks": 16, "size": "1 MiB"}},
    "four times": {"memory": {"channels": 32}, "l2": {"banks": 32, "size": "2 MiB"}},
    "eight times": {"memory": {"channels": 64}, "l2": {"banks": 64, "size": "4 MiB"}},
    "an L2 of 16 MiB with 64 banks": {"l2": {"size": "16 MiB", "ways": 16, "banks": 64}},
    "row hits first": {"memory": {"controller": STUDY.parameters["memory"]}},
    "row hits first, an L2 of 16 MiB with 64 banks": {
        "memory": {"controller": STUDY.parameters["memory"]},
        "l2": {"size": "16 MiB", "ways": 16, "banks": 64},
    },
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
    mpps: float | None = None,
    gpu: Mapping[str, Any] | None = None,
    buffer: Mapping[str, Any] | None = None,
    dcq: bool = True,
    packets: int | None = None,
) -> dict[str, Any]:
    """A point of the room, changed; one run of it, saturated without a load."""
    found = STUDY.point(Setting(application, "hermes", mpps, dcq=dcq)) | {"runs": 1}
    machine = found["gpu"]
    machine["memory"]["controller"] = "in-order"
    for name, value in (gpu or {}).items():
        machine[name] = machine.get(name, {}) | value if isinstance(value, Mapping) else value
    found["system"]["hermes"]["buffer"] |= buffer or {}
    return found | ({"packets": packets} if packets else {})


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


def with_nic() -> None:
    """Capacity with and without the NIC's traffic in memory."""
    print("\n| NIC's traffic in memory | RTL, Mpps | DecTTL, Mpps |\n|---|---|---|")
    for words, buffer in (("not counted (the preset)", {}), ("counted", {"nic": True})):
        both = run([point(name, buffer=buffer, packets=PACKETS) for name in ("rtl", "dec_ttl")], "throughput_mpps")
        print(f"| {words} | {both[0]:,.0f} | {both[1]:,.0f} |", flush=True)


def main() -> None:
    with_nic()

    print("\n| machine | RTL: Mpps on 8 cores, 8 to 17, 17 to 28 | DecTTL |\n|---|---|---|")
    for name, gpu in MEMORIES.items():
        scaling(name, gpu)
    for name, buffer in SLOTS.items():
        scaling(name, {}, buffer)

    mcw = (8, 16, 24, 32)
    print("\n| pipeline, clocks | " + " | ".join(f"Hermes-{n}, us" for n in mcw) + " |\n|---|" + "---|" * len(mcw))
    for clocks in (24, 16, 12, 8):
        (capacity,) = run([point("classifier", gpu={"pipeline": clocks})], "throughput_mpps")
        line = STUDY.parameters["runs"]["burst"] * capacity
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
