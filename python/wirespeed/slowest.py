"""Where the slowest hundredth of the packets spend the time that others do not, from a run's table `packets`.

The table is a systematic sample of at most 20,000 packets; those that were lost or rejected have no sojourn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

SHARE: Final = 0.01
# Fewer slow packets say nothing about where the tail comes from.
_FEWEST: Final = 10


@dataclass(frozen=True, slots=True)
class Slowest:
    """The slowest hundredth of a sample beside all of it; times are means in nanoseconds unless they say otherwise."""

    packets: int
    """Packets of the sample that were carried."""
    slow: int
    """How many of those are the slowest."""
    mean_ns: float
    slow_ns: float
    mean_parts_ns: Mapping[str, float]
    """A packet of the sample by reason; they sum to `mean_ns`."""
    slow_parts_ns: Mapping[str, float]
    """A slow packet by reason; they sum to `slow_ns`."""
    least_ns: Mapping[str, float]
    """By reason, the least that any packet of the sample took."""
    longest_ring_ns: float
    """The longest wait in a receive ring."""
    ring_ns: Mapping[int, float]
    """The mean wait in a receive ring, by the core that empties it."""


def slowest(packets: Any) -> Slowest | None:
    """The slowest of a run's table `packets`, which hands out an Arrow stream; equal sojourns keep its order.

    None where too few were carried to tell, and where the table lacks their times.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pa.table(packets)
    if not {"sojourn_ns", "at_ring_ns", "core"} <= set(found.column_names):
        return None
    found = found.filter(pc.is_valid(found["sojourn_ns"])).sort_by("sojourn_ns")
    slow = int(found.num_rows * SHARE)
    if slow < _FEWEST:
        return None
    tail = found.slice(found.num_rows - slow)
    reasons = {name.removeprefix("at_").removesuffix("_ns"): name for name in found.column_names if name[:3] == "at_"}
    by_core = found.group_by("core").aggregate([("at_ring_ns", "mean")]).to_pylist()
    return Slowest(
        packets=found.num_rows,
        slow=slow,
        mean_ns=pc.mean(found["sojourn_ns"]).as_py(),
        slow_ns=pc.mean(tail["sojourn_ns"]).as_py(),
        mean_parts_ns={reason: pc.mean(found[name]).as_py() for reason, name in reasons.items()},
        slow_parts_ns={reason: pc.mean(tail[name]).as_py() for reason, name in reasons.items()},
        least_ns={reason: pc.min(found[name]).as_py() for reason, name in reasons.items()},
        longest_ring_ns=pc.max(found["at_ring_ns"]).as_py(),
        ring_ns={row["core"]: row["at_ring_ns_mean"] for row in by_core},
    )
