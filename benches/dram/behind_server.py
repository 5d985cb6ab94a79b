"""What packet-buffer allocation, batching and row prefetch buy behind a server whose NIC writes past the LLC.

100 Gbps of frames are offered to eight cores that forward them; the NIC writes packets to DRAM and reads them from there
(no I/O ways), so a packet's bytes cross the data bus twice. One DDR4-3200 channel, one DDR5-6400 sub-channel and two
HBM2 pseudo-channels have peaks of 26, 26 and 32 GB/s. Carried Gbps (L2), mean and 95 % half-width over seeds.
Prints a table for the guide. Needs the package; without it the exit code is 2.

    python benches/dram/behind_server.py [PACKETS [SEEDS]]
"""

import importlib.util
import statistics
import sys

MEMORIES = {
    "DDR4-3200": {"machine.dram.standard": "ddr4-3200aa", "machine.dram.channels": 1},
    "DDR5-6400": {"machine.dram.standard": "ddr5-6400b", "machine.dram.channels": 1},
    "HBM2": {"machine.dram.standard": "hbm2-2000", "machine.dram.channels": 2},
}
ORDERS = ["fcfs", "fcfs=4", "batch=direction/4/0", "batch=direction/4/4", "fr-fcfs=16"]
ALLOCATIONS = ["cells", "piecewise"]
COMMON = {
    "traffic.load": 1.0,
    "machine.cores": 8,
    "machine.llc.io_ways": 0,
    "mempool.size": 32768,
    "function.forward.prefixes": 10_000,
    "buffer.size": "32 MiB",
    "buffer.shuffled": True,
    # Rings that fill, and reach what lasts, within the warm-up.
    "nic.rx_descriptors": 256,
    "run.curve": [],
}
# Of Student's distribution at 95 %, two sides, by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}
NOT_RUN = 2


def asked() -> tuple[int, int]:
    """Packets and seeds of the command line."""
    packets = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    if seeds - 1 not in {0, *STUDENT}:
        sys.exit(f"SEEDS {seeds}: must be 1 to {max(STUDENT) + 1}")
    return packets, seeds


def carried(settings: dict[str, object], packets: int, seeds: int) -> tuple[float, float, float]:
    """Gbps carried with their half-width over seeds, and the share of row hits."""
    import wirespeed

    found = COMMON | settings | {"run.packets": packets}
    runs = [wirespeed.run("forwarding", set=found, seed=seed).summary for seed in range(1, seeds + 1)]
    rates = [run["carried_l2_gbps"] for run in runs]
    width = STUDENT[seeds - 1] * statistics.stdev(rates) / seeds**0.5 if seeds > 1 else float("nan")
    of = {kind: sum(run["dram"][f"row_{kind}"] for run in runs) for kind in ("hits", "misses", "conflicts")}
    return statistics.mean(rates), width, of["hits"] / sum(of.values())


def main() -> int:
    if importlib.util.find_spec("wirespeed") is None:
        print("not installed: wirespeed: pip install .")
        return NOT_RUN
    packets, seeds = asked()
    print("| memory | order | cells, Gbps | row hits | piece-wise, Gbps | row hits | piece-wise over cells |")
    print("|---|---|---|---|---|---|---|")
    for memory, standard in MEMORIES.items():
        for order in ORDERS:
            found = {}
            for allocation in ALLOCATIONS:
                settings = standard | {"machine.dram.controller.order": order, "buffer.allocation": allocation}
                found[allocation] = carried(settings, packets, seeds)
            (a, a_width, a_hits), (b, b_width, b_hits) = (found[name] for name in ALLOCATIONS)
            gain = f"{b / a - 1:+.0%}" if a else "–"  # so few packets that none was carried after the warm-up
            print(
                f"| {memory} | {order} | {a:.1f} ± {a_width:.1f} | {a_hits:.0%} | {b:.1f} ± {b_width:.1f} | {b_hits:.0%} "
                f"| {gain} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
