"""What each technique of packet buffers carries behind a server whose NIC writes past the LLC, one at a time and as
Hasan, Chandra and Vijaykumar (ISCA 2003) have them together.

As behind_server.py: 100 Gbps of an ISP's frames to eight cores that forward them over two ports (16 transmit queues), no
I/O ways, one DDR4-3200 channel. Carried Gbps (L2), mean and 95 % half-width over seeds, and the share of row hits.
Prints two tables for the guide. Needs the package; without it the exit code is 2.

    python benches/dram/switches.py [PACKETS [SEEDS]]
"""

import importlib.util
import sys

from behind_server import MEMORIES, NOT_RUN, asked, carried

CONTROLLER = "machine.dram.controller."
BASE = MEMORIES["DDR4-3200"] | {"nic.ports": 2}
COLUMNS = {
    f"{allocation}, {order}": {"buffer.allocation": allocation, CONTROLLER + "order": order}
    for order in ("fcfs=4", "fr-fcfs=16")
    for allocation in ("cells", "piecewise")
}
HALVES = {"buffer.pools": 2, CONTROLLER + "halves": "16 MiB"}
SWITCHES: dict[str, dict[str, object]] = {
    "none": {},
    "output first": {CONTROLLER + "output_first": True},
    "pools in halves": HALVES,
    "queues by turns, whole packets": {"nic.output_block": 1024},
    "blocks of 64 lines": {"nic.output_block": 64},
    "blocks of 4 lines": {"nic.output_block": 4},
    "blocks of 1 line": {"nic.output_block": 1},
    "blocks of 1 line, caches of 4": {"nic.output_block": 1, "nic.cache_cells": 4},
    "blocks of 1 line, caches of 64": {"nic.output_block": 1, "nic.cache_cells": 64},
    "caches of 4 lines": {"nic.cache_cells": 4},
    "caches of 4096 lines": {"nic.cache_cells": 4096},
    "all rows open": {"machine.dram.all_hits": True},
}
REF = HALVES | {
    "buffer.allocation": "fixed",
    "buffer.shuffled": True,
    CONTROLLER + "order": "batch=bank-parity/1/0",
    CONTROLLER + "page": "closed",
    CONTROLLER + "output_first": True,
    "nic.output_block": 1,
}
OURS = {"nic.output_block": 1, CONTROLLER + "order": "batch=direction/1/0", "buffer.allocation": "piecewise"}
BATCH = OURS | {CONTROLLER + "order": "batch=direction/4/0"}
BLOCK = BATCH | {"nic.output_block": 4}
AHEAD = BLOCK | {CONTROLLER + "order": "batch=direction/4/1"}
TOGETHER = {
    "REF_BASE": REF,
    "REF_BASE, all rows open": REF | {"machine.dram.all_hits": True},
    "P_ALLOC": OURS,
    "P_ALLOC+BATCH": BATCH,
    "... and blocked output": BLOCK,
    "... and prefetch of rows (ALL)": AHEAD,
    "ADAPT": {"buffer.allocation": "linear", CONTROLLER + "order": "batch=direction/1/0"}
    | {"nic.output_block": 1, "nic.cache_cells": 4},
    "ADAPT with prefetch": {"buffer.allocation": "linear", CONTROLLER + "order": "batch=direction/1/1"}
    | {"nic.output_block": 1, "nic.cache_cells": 4},
    "ALL, all rows open": AHEAD | {"machine.dram.all_hits": True},
}


def main() -> int:
    if importlib.util.find_spec("wirespeed") is None:
        print("not installed: wirespeed: pip install .")
        return NOT_RUN
    packets, seeds = asked()

    def cells(settings: dict[str, object]) -> str:
        mean, width, hits = carried(BASE | settings, packets, seeds)
        return f"{mean:.1f} ± {width:.1f} | {hits:.0%}"

    print("| switch |" + "".join(f" {column} | hits |" for column in COLUMNS))
    print("|---|" + "---|---|" * len(COLUMNS))
    for name, switch in SWITCHES.items():
        print(f"| {name} | " + " | ".join(cells(column | switch) for column in COLUMNS.values()) + " |", flush=True)
    print("\n| configuration | Gbps | row hits |\n|---|---|---|")
    for name, settings in TOGETHER.items():
        print(f"| {name} | {cells(settings)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
