"""What is measured of this machine: every loop is one of `crates/calibrate`, of which `studies::loops` has the twin."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from wirespeed import _wirespeed
from wirespeed.errors import InputError

KIB, MIB = 1 << 10, 1 << 20
_ROOT: Final = Path("/sys/devices/system/cpu")
_CHAINS: Final = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
_PAGES: Final = (16, 32, 48, 64, 72, 96, 128, 192, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
# Lines of the blocks that tell how far a prefetcher goes beyond their end, and lines from one to the next: room for it.
_BLOCKS: Final = (6, 12, 24)
_BLOCKS_APART: Final = 48
# Blocks that an LLC holds or does not, by how much of what lies between them a prefetcher brings.
KEPT_LINES, KEPT_APART = 10, 40
# So much is copied at a time by vectors, without instructions that copy by themselves.
_COPIED: Final = 1024
# The sets of bandwidths: within L1, L2 and the LLC of any server; the last is smaller where the LLC is.
_SETS: Final = (16 * KIB, 256 * KIB, 8 * MIB)
# A chase through so much is a chase through DRAM, however large the LLC; and it is short enough to be laid in a second.
_LEAST_FAR, _MOST_FAR = 128 * MIB, 512 * MIB

# As programs.windows has them.
_WINDOW_MS, _WINDOWS = 50.0, 9
# What others do changes from minute to minute: all that tells of it comes twice, the second time in the other order.
_SHARE_WINDOWS: Final = 5
# What a program keeps of a cache that others fill depends on how fast it comes back: slow, faster, as fast as it can.
_WINDOW_CHAINS: Final = (1, 4, 16)

Progress = Callable[[str, int, int, str], None]


@dataclass(frozen=True, slots=True)
class CacheLevel:
    """What the kernel says of a cache, by CPUID: a hypervisor may have made it up."""

    level: int
    bytes: int
    ways: int
    cores: int


@dataclass(slots=True)
class Measured:
    """Nanoseconds an item, by what was done."""

    core: int
    caches: dict[int, CacheLevel]
    model: str
    multiply_ns: float = 0.0
    chase: dict[int, float] = field(default_factory=dict)
    """By bytes, in huge pages where there are any."""
    pages: dict[int, tuple[float, float]] = field(default_factory=dict)
    """By number of pages with a line each: in pages of 4 KiB, and in huge pages."""
    chains: dict[int, float] = field(default_factory=dict)
    """By chains, through DRAM."""
    llc_chains: dict[int, float] = field(default_factory=dict)
    random_ns: float | None = None
    """Independent loads of random lines of DRAM, each with some instructions around it."""
    streams: dict[tuple[str, int], float] = field(default_factory=dict)
    """By operation and bytes: nanoseconds a line."""
    copies: dict[int, float] = field(default_factory=dict)
    """By bytes of each of two sets, of which random blocks are copied: nanoseconds a line."""
    blocks: dict[tuple[int, int], float] = field(default_factory=dict)
    """By lines of a block and lines from one to the next, in a set of `far` bytes: nanoseconds a line of a block."""
    kept_blocks: dict[int, float] = field(default_factory=dict)
    """By bytes of the set: blocks as a program sees them, in long windows; geometric mean of two passes."""
    shared_read: dict[int, float] = field(default_factory=dict)
    """By cores that read DRAM at a time: nanoseconds a line for one of them."""
    windows: dict[tuple[int, int], float] = field(default_factory=dict)
    """By chains and bytes: a chase as a program sees it, in long windows; geometric mean of two passes."""
    far: int = _LEAST_FAR
    notes: list[str] = field(default_factory=list)
    """What could not be determined."""

    @property
    def l2(self) -> int:
        """Bytes of L2; as assumed where the kernel does not tell."""
        return self.caches[2].bytes if 2 in self.caches else MIB

    @property
    def copied(self) -> tuple[int, int]:
        """Bytes of each of two sets that L1 holds; and of two that L2 does beside much else, and L1 does not."""
        return 8 * KIB, self.l2 // 4


def native(work: Mapping[str, Any], core: int, **more: Any) -> float:
    """Nanoseconds an item of a loop on this machine, in its fastest round."""
    spec = {"work": work, "core": core, **more}
    return float(json.loads(_wirespeed.measure_loop(json.dumps(spec)))["best_ns"])


def windowed(work: Mapping[str, Any], core: int, windows: int = _WINDOWS) -> float:
    """Nanoseconds an item of a loop that goes on for long, with what share of the caches others leave it.

    That is the lower quartile of windows as long as those of a measured program (`programs.windows`).
    """
    spec = {"work": work, "core": core, "rounds": windows, "round_ms": _WINDOW_MS, "bring": False}
    return float(json.loads(_wirespeed.measure_loop(json.dumps(spec)))["quarter_ns"])


def cores() -> list[int]:
    """Cores that this process may use."""
    return list(_wirespeed.cores())


def caches(core: int, root: Path = _ROOT) -> dict[int, CacheLevel]:
    """Data and unified caches of a core by level."""
    found = {}
    for index in sorted((root / f"cpu{core}" / "cache").glob("index*")):
        try:
            if (index / "type").read_text().strip() == "Instruction":
                continue
            text = (index / "size").read_text().strip()
            units = {"K": KIB, "M": MIB, "G": 1 << 30}
            bytes = int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)
            level = int((index / "level").read_text())
            shared = _count((index / "shared_cpu_list").read_text())
            found[level] = CacheLevel(level, bytes, int((index / "ways_of_associativity").read_text()), shared)
        except (OSError, ValueError, IndexError):
            continue
    return found


def measure(
    core: int | None, progress: Progress | None = None, meanwhile: Callable[[], None] | None = None
) -> Measured:
    """Measures one core and what it shares. Raises InputError for a core that this process may not use.

    What others leave of the LLC is measured before and after `meanwhile`, of which it is to tell, and whose exceptions
    pass through.
    """
    usable = cores()
    core = usable[-1] if core is None else core
    if core not in usable:
        raise InputError(f"--cpu {core}: must be one of {', '.join(map(str, usable))}")
    found = Measured(core, caches(core), _model())
    llc = max((each.bytes for each in found.caches.values()), default=32 * MIB)
    found.far = min(max(_LEAST_FAR, 4 * llc), _MOST_FAR)
    steps = _steps(found, usable, llc, meanwhile)
    for number, (name, step) in enumerate(steps):
        if progress is not None:
            progress(f"measuring {name}", number, len(steps), "")
        step()
    return found


def _steps(
    found: Measured, usable: Sequence[int], llc: int, meanwhile: Callable[[], None] | None
) -> list[tuple[str, Callable[[], None]]]:
    core, far = found.core, found.far
    passes: dict[tuple[int, int], list[float]] = {}
    kept_passes: dict[int, list[float]] = {}

    def multiply() -> None:
        found.multiply_ns = native({"kind": "multiply"}, core, rounds=61)

    def chase(bytes: int) -> None:
        found.chase[bytes] = native({"kind": "chase", "bytes": bytes, "chains": 1}, core)

    def window(chains: int, bytes: int) -> None:
        ns = windowed({"kind": "chase", "bytes": bytes, "chains": chains}, core, _SHARE_WINDOWS)
        passes.setdefault((chains, bytes), []).append(ns)
        found.windows[chains, bytes] = statistics.geometric_mean(passes[chains, bytes])

    def kept(bytes: int) -> None:
        ns = windowed(read_blocks(KEPT_LINES, KEPT_APART, bytes), core, _SHARE_WINDOWS)
        kept_passes.setdefault(bytes, []).append(ns)
        found.kept_blocks[bytes] = statistics.geometric_mean(kept_passes[bytes])

    def pages(number: int) -> None:
        work = {"kind": "chase", "bytes": number * 4096, "chains": 1, "step": 4096}
        small, huge = (native(work, core, huge=each) for each in (False, True))
        found.pages[number] = (small, huge)

    def chains(number: int) -> None:
        for bytes, column in ((far, found.chains), (llc // 4, found.llc_chains)):
            column[number] = native({"kind": "chase", "bytes": bytes, "chains": number}, core)

    def stream(operation: str, bytes: int) -> None:
        work = {"kind": "stream", "operation": operation, "bytes": bytes}
        found.streams[operation, bytes] = native(work, core)

    def random() -> None:
        found.random_ns = native(random_loads(far), core)

    def copies(bytes: int) -> None:
        found.copies[bytes] = native({"kind": "copy", "bytes": bytes, "block": _COPIED}, core) * 64 / _COPIED

    def blocks(lines: int) -> None:
        found.blocks[lines, _BLOCKS_APART] = native(read_blocks(lines, _BLOCKS_APART, far), core)

    def shared() -> None:
        work = {"kind": "stream", "operation": "read", "bytes": far // 2}
        for number in range(1, min(len(usable), 8) + 1):
            beside = [each for each in usable if each != core][: number - 1]
            found.shared_read[number] = native(work, core, beside=beside, rounds=25, round_ms=4.0)

    sizes, size = [], 8 * KIB
    while size < far:
        sizes += [size] if size < 2 * MIB else [size, size * 3 // 2]
        size *= 2
    steps: list[tuple[str, Callable[[], None]]] = [("the clock", multiply)]
    steps += [("latencies", partial(chase, size)) for size in [*sizes, far]]
    # From within any L2 to twice the LLC, as far as that is measured at all.
    windows, size = [], MIB
    while size <= min(2 * llc, far):
        windows += [size, size * 3 // 2]
        size *= 2
    share = [partial(window, chains, size) for chains in _WINDOW_CHAINS for size in windows]
    # Of all that a block and the room behind it span, as much.
    share += [partial(kept, size) for size in windows if 4 * found.l2 < size <= far]
    steps += [("what others leave of the LLC", each) for each in share]
    steps += [("a program meanwhile", meanwhile)] if meanwhile else []
    steps += [("what others leave of the LLC", each) for each in reversed(share)]
    steps += [("translation", partial(pages, number)) for number in _PAGES]
    steps += [("overlap", partial(chains, number)) for number in _CHAINS]
    steps += [("overlap", random)]
    sets = [min(size, max(llc // 4, 64 * KIB)) for size in _SETS]
    operations = ("read", "write", "copy", "streaming_write")
    steps += [("bandwidth", partial(stream, operation, size)) for operation in operations for size in (*sets, far // 2)]
    steps += [("bandwidth", partial(copies, bytes)) for bytes in found.copied]
    steps += [("blocks", partial(blocks, lines)) for lines in _BLOCKS]
    return [*steps, ("bandwidth of several cores", shared)]


def random_loads(bytes: int) -> dict[str, Any]:
    """The loop of loads that do not wait for each other."""
    return {"kind": "random", "bytes": bytes, "stores": 0.0}


def read_blocks(lines: int, apart: int, bytes: int) -> dict[str, Any]:
    """The loop that reads blocks of so many lines, so many lines apart."""
    return {"kind": "blocks", "bytes": bytes, "block": 64 * lines, "apart": 64 * apart}


def _model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return "unknown processor"


def _count(cpus: str) -> int:
    """How many a list such as `0-3,8` has."""
    number = 0
    for part in cpus.strip().split(","):
        first, _, last = part.partition("-")
        number += int(last or first) - int(first) + 1
    return number
