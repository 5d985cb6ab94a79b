"""Caches here and in pycachesim, side by side: accesses per CPU-second and their ratio, from arrays.

L1 32 KiB/8, L2 1 MiB/16, L3 16 MiB/16, LRU; 5 million loads over 2**20 lines, uniform and Zipf-like with s = 0.99.
Both sides run in turn, so that what else the machine does falls on both alike, and the best of each counts.
pycachesim gets a list, as it takes no arrays. Both must count the same. Needs the package, numpy and pycachesim
(requirements.txt); without them the exit code is 2. It is 1 when a ratio of CPU times is below `--require`.
"""

import argparse
import importlib.util
import sys
import time

LOADS = 5_000_000
LINES = 2**20
LEVELS = "32KiB/8,1MiB/16,16MiB/16"
SETS = [(64, 8), (1024, 16), (16384, 16)]
NOT_RUN = 2


def traces():
    """Byte addresses by name."""
    import numpy as np

    share = np.cumsum(1 / np.arange(1, LINES + 1) ** 0.99)
    rank = np.searchsorted(share / share[-1], np.random.Generator(np.random.PCG64(42)).random(LOADS))
    lines = {
        "uniform": np.random.Generator(np.random.PCG64(42)).integers(0, LINES, LOADS),
        "zipf": np.random.Generator(np.random.PCG64(7)).permutation(LINES)[rank],
    }
    return {name: line.astype(np.uint64) * np.uint64(64) for name, line in lines.items()}


def ours(addresses):
    """CPU seconds, and hits and misses by level."""
    from wirespeed.memory import simulate_cache

    start = time.process_time()
    counts = simulate_cache(addresses, LEVELS)
    took = time.process_time() - start
    return took, [(level["hits"], level["misses"]) for level in counts["levels"]]


def theirs(addresses):
    """CPU seconds, and hits and misses by level."""
    from cachesim import Cache, CacheSimulator, MainMemory

    memory, caches = MainMemory(), [None]
    for i, (sets, ways) in reversed(list(enumerate(SETS))):
        caches.insert(0, Cache(f"L{i + 1}", sets, ways, 64, "LRU", load_from=caches[0], store_to=caches[0]))
    memory.load_to(caches[-2])
    memory.store_from(caches[-2])
    simulator = CacheSimulator(caches[0], memory)
    start = time.process_time()
    simulator.load(addresses, length=1)
    took = time.process_time() - start
    return took, [(cache.backend.HIT_count, cache.backend.MISS_count) for cache in caches[:-1]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--require", type=float, default=6.0, metavar="RATIO")
    arguments = parser.parse_args()

    missing = [name for name in ("wirespeed", "numpy", "cachesim") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"not installed: {', '.join(missing)}: pip install . -r benches/cache/requirements.txt")
        return NOT_RUN

    failed = False
    print(
        f"{'M accesses per CPU-second, best of ' + str(arguments.rounds):<38} {'here':>8} {'pycachesim':>11} {'ratio':>7}"
    )
    for name, addresses in traces().items():
        listed = addresses.tolist()
        best = [float("inf")] * 2
        for _ in range(arguments.rounds):
            took, counts = zip(ours(addresses), theirs(listed), strict=True)
            best = [min(pair) for pair in zip(best, took, strict=True)]
            if counts[0] != counts[1]:
                sys.exit(f"{name}: hits and misses differ: {counts[0]} here, {counts[1]} in pycachesim")
        here, there = (LOADS / seconds / 1e6 for seconds in best)
        print(f"{name:<38} {here:>8.1f} {there:>11.1f} {here / there:>6.1f}x")
        failed |= here / there < arguments.require
    if failed:
        print(f"{arguments.require:.1f} times as fast is required")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
