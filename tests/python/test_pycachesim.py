"""Caches beside pycachesim, an independent program: stores, write policies and victim caches, fuzzed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from wirespeed import memory

cachesim = pytest.importorskip("cachesim", reason="pycachesim is not installed (pip install pycachesim)")

LINE = 64
# What pycachesim calls write-back and write-allocate, and what that is here. Its stores that hit are no use of
# the line, and a dirty line that comes down to a level that has it not is read there first if the level
# allocates. Without write-allocate a level that writes back fills the line without reading it.
POLICIES = {
    (True, True): "write-back:write-allocate:writeback-fetch",
    (True, False): "write-back:write-validate",
    (False, False): "write-through:write-around",
}


@dataclass(frozen=True)
class Level:
    sets: int
    ways: int
    replacement: str
    policy: tuple[bool, bool]

    def text(self) -> str:
        return f"{self.sets * self.ways * LINE}/{self.ways}:{self.replacement}:store-is-no-use:{POLICIES[self.policy]}"

    def theirs(self, name: str, **wiring: Any) -> Any:
        write_back, write_allocate = self.policy
        return cachesim.Cache(
            name,
            self.sets,
            self.ways,
            LINE,
            self.replacement.upper(),
            write_back=write_back,
            write_allocate=write_allocate,
            **wiring,
        )


Accesses = list[tuple[int, bool]]


def drawn(rng: random.Random, stores: float) -> Accesses:
    lines = rng.choice([16, 64, 512, 4096])
    return [(rng.randrange(lines) * LINE, rng.random() < stores) for _ in range(2_000)]


def run(simulator: Any, accesses: Accesses) -> list[dict[str, int]]:
    for address, write in accesses:
        (simulator.store if write else simulator.load)(address)
    return [level.stats() for level in simulator.levels(True)]


def chain(levels: Sequence[Level], accesses: Accesses) -> list[dict[str, int]]:
    """pycachesim's counts of each level and of memory."""
    below = cachesim.MainMemory()
    built: list[Any] = []
    for at, level in reversed(list(enumerate(levels))):
        wiring = {"load_from": built[0], "store_to": built[0]} if built else {}
        built.insert(0, level.theirs(f"L{at + 1}", **wiring))
    below.load_to(built[-1])
    below.store_from(built[-1])
    return run(cachesim.CacheSimulator(built[0], below), accesses)


def ours(levels: str, accesses: Accesses) -> dict[str, Any]:
    addresses = np.array([address for address, _ in accesses], dtype=np.uint64)
    return memory.simulate_cache(addresses, levels, is_write=np.array([write for _, write in accesses]))


def counts(found: dict[str, Any]) -> list[tuple[int, ...]]:
    """As pycachesim counts: loads that hit; what missed and was read; what came to be stored; dirty lines sent down."""
    return [
        (
            level["loads"]["hits"],
            level["loads"]["misses"] + level["stores"]["misses"] + level["writebacks_in"]["misses"],
            sum(level["stores"].values()) + sum(level["writebacks_in"].values()),
            level["writebacks"],
        )
        for level in found["levels"]
    ]


def shapes(rng: random.Random, most: int) -> list[tuple[int, int]]:
    found = [(2 ** rng.randint(0, 4), rng.choice([1, 2, 4, 8]))]
    for _ in range(rng.randint(0, most - 1)):
        found.append((found[-1][0] * rng.choice([1, 2, 4]), rng.choice([4, 8, 16])))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_loads_and_stores_of_write_back_chains_count_alike(seed: int) -> None:
    rng = random.Random(seed)
    replacement = rng.choice(["lru", "fifo"])
    levels = [Level(sets, ways, replacement, (True, True)) for sets, ways in shapes(rng, 3)]
    accesses = drawn(rng, rng.choice([0.1, 0.5, 0.9]))
    theirs = chain(levels, accesses)
    found = ours(",".join(level.text() for level in levels), accesses)
    names = ("HIT_count", "MISS_count", "STORE_count", "EVICT_count")
    assert counts(found) == [tuple(level[name] for name in names) for level in theirs[:-1]], levels
    assert (found["memory_reads"], found["memory_writes"]) == (theirs[-1]["LOAD_count"], theirs[-1]["STORE_count"])


@pytest.mark.parametrize("seed", range(40))
def test_write_through_and_no_allocation_count_alike(seed: int) -> None:
    rng = random.Random(1000 + seed)
    replacement = rng.choice(["lru", "fifo"])
    levels: list[Level] = []
    for sets, ways in shapes(rng, 3):
        # What a level that does not allocate does with a dirty line from above is not a setting of the command.
        policies = [policy for policy in POLICIES if policy[0] or not levels or not levels[-1].policy[0]]
        levels.append(Level(sets, ways, replacement, rng.choice(policies)))
    accesses = drawn(rng, rng.choice([0.1, 0.5, 0.9]))
    theirs = chain(levels, accesses)
    found = ours(",".join(level.text() for level in levels), accesses)
    assert [level["loads"]["hits"] for level in found["levels"]] == [level["HIT_count"] for level in theirs[:-1]], (
        levels
    )
    assert found["memory_reads"] == theirs[-1]["LOAD_count"], levels
    for level, mine, other in zip(levels, found["levels"], theirs[:-1], strict=True):
        # There, a store that is passed on is an eviction, too, but not where memory is next, which does not count it.
        if level.policy[0]:
            assert mine["writebacks"] == other["EVICT_count"], levels
    if levels[-1].policy[0]:
        assert found["memory_writes"] == theirs[-1]["STORE_count"], levels


@pytest.mark.parametrize("seed", range(40))
def test_victim_caches_count_alike(seed: int) -> None:
    rng = random.Random(2000 + seed)
    (sets, ways), (more, many) = shapes(rng, 1)[0], (2 ** rng.randint(0, 4), rng.choice([1, 2, 4, 8, 16]))
    first, second = Level(sets, ways, "lru", (True, True)), Level(more, many, "lru", (True, True))
    accesses = drawn(rng, rng.choice([0.0, 0.1, 0.5, 0.9]))
    below = cachesim.MainMemory()
    victims = second.theirs("L2")
    above = first.theirs("L1", victims_to=victims, store_to=victims)
    below.load_to(above)
    below.store_from(victims)
    theirs = run(cachesim.CacheSimulator(above, below), accesses)
    # A hit leaves the line in a victim cache there, and a clean line may come in twice.
    kept = f"{second.text().replace(':writeback-fetch', '')}:victim:keep-on-hit:admit-copies"
    found = ours(f"{first.text()},{kept}", accesses)
    mine = [level["loads"]["hits"] for level in found["levels"]]
    assert mine == [level["HIT_count"] for level in theirs[:2]], (first, second)
    assert (found["memory_reads"], found["memory_writes"]) == (theirs[2]["LOAD_count"], theirs[2]["STORE_count"])
