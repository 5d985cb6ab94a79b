"""What the misses of the transmitting cores are made of: whose lines are missed, and what it is with fewer users.

    python papers/2024-5gc2ache/tx_misses.py        # two minutes of CPU; what it prints stands in README.md

Nothing here is judged, and nothing of it is in the scenario. Each region of the user plane's tables is told apart at
the LLC; what workers ask for beside is packets, mbufs, queues and rings.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from wirespeed import api
from wirespeed.papers.rooms.fivegc2ache_2024 import FRAMING_BYTES, LARGEST, TX_DESCRIPTORS

OF: Final[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("pipeline.toml").read_text())
GROUPS: Final = {
    "flow tables": ("upf_flows",),
    "tunnels and addresses": ("upf_teid", "upf_ue_v4"),
    "sessions": ("upf_sessions",),
    "rules": ("upf_pdrs", "upf_fars"),
    "rates and volumes": ("upf_qers", "upf_urrs"),
}
CHANGED: Final[dict[str, dict[str, Any]]] = {
    "as judged": {},
    "as judged, mbufs freed in bulk": {"nic.fast_free": True},
    "after 1,500,000 packets": {"run.warmup": 1_500_000},
    "4,000 UEs, a flow each": {"function.upf.load.ues": 4000, "traffic.flows.count": 4000},
    "100 UEs, a flow each": {"function.upf.load.ues": 100, "traffic.flows.count": 100},
}
CASES: Final = ("default", "d512", "m16384", "all")


def run(case: str, changed: Mapping[str, Any]) -> Mapping[str, Any]:
    """The summary of a case, changed."""
    line_mpps = 100e3 / (8 * (LARGEST + FRAMING_BYTES))
    settings: dict[str, Any] = {
        "traffic.packet_rate": f"{OF['rate_share'] * line_mpps:.4f} Mpps",
        "traffic.sizes.fixed": LARGEST,
        "nic.tx_descriptors": TX_DESCRIPTORS,
        "run.warmup": OF["warmup"],
        "run.packets": OF["packets"],
    }
    for key, name in (("descriptors", "nic.rx_descriptors"), ("mbufs", "mempool.size")):
        if case in OF[key]:
            settings[name] = OF[key][case]
    if case in OF["io_ways"]:
        ways = OF["io_ways"][case]
        settings |= {"machine.llc.core_ways": 11 - ways, "machine.llc.io_ways": ways}
    apart = {f"machine.applications.{name}.llc": True for names in GROUPS.values() for name in names}
    return api.run(OF["scenario"], set={**settings, **apart, **changed}, seed=0, threads=1).summary


def row(summary: Mapping[str, Any]) -> list[float]:
    """Miss rate of the workers; misses a packet, in all, of each group, and of what is no table."""
    packets = summary["carried_mpps"] * summary["simulated_s"] * 1e6
    [of] = [each for each in summary["llc_by_cores"] if each["cores"] == "working"]
    missed = of["lookups"] * of["miss_rate"] / packets
    told = {
        each["of"]: each["llc_lookups"] * (each["llc_miss_rate"] or 0) / packets for each in summary["applications"]
    }
    groups = [sum(told[name] for name in names) for names in GROUPS.values()]
    return [100 * of["miss_rate"], of["lookups"] / packets, missed, *groups, missed - sum(groups)]


def main() -> None:
    """Prints the table."""
    head = [
        "case",
        "changed",
        "TX misses",
        "lookups a packet",
        "missed a packet",
        *GROUPS,
        "packets, mbufs, queues, rings",
    ]
    sys.stdout.write("| " + " | ".join(head) + " |\n|" + "---|" * len(head) + "\n")
    for case in CASES:
        for words, changed in CHANGED.items():
            rate, *rest = row(run(case, changed))
            cells = " | ".join(f"{x:.2f}" for x in rest)
            sys.stdout.write(f"| {case} | {words} | {rate:.1f} % | {cells} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
