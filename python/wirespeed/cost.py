"""What hardware costs: bits of the copy table beside its cache, of other techniques, area, and energy of searches.

An entry of the copy table is defined once (`entry`); its bits, area and energy follow. Area is in register bit
equivalents: 0.6 for a static RAM bit, 2.0 for a bit of a content-addressable memory, and 195 for the control of an
array (Flynn, "Computer Architecture: Pipelined and Parallel Processor Design", 1995, table 2.2, after Mulder, Quach and
Flynn, IEEE JSSC 1991); 1 rbe is 675 squares of the feature size. Left out: wires, ports and comparators.

Energy is of a bit that a content-addressable memory compares: 2.89 fJ in 0.18 um and 1.8 V (Pagiamtzis and
Sheikholeslami, IEEE JSSC 2004: 1024 x 144 bits, ternary); newer processes take less. Left out: energy of writing an
entry, and of RAM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rich.table import Table

from wirespeed import printed
from wirespeed import quantities as q
from wirespeed.errors import InputError

RBE_RAM: Final = 0.6
RBE_CAM: Final = 2.0
RBE_ARRAY: Final = 195.0

LINES: Final = (16, 32, 64, 128)
WAYS: Final = (4, 8, 16, 32)
FJ_SEARCHED_BIT: Final = 2.89


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the copy table, in bits: what is searched for a target, what for a source, and what is not.

    Section 3.2 of Duarte and Wong (IEEE TC 2010): tag of the target, tag and index of the source, valid, and two bits
    of MESI, for a set-associative table.
    """

    target: int
    source: int
    state: int = 3

    @property
    def bits(self) -> int:
        """All bits."""
        return self.target + self.source + self.state


@dataclass(frozen=True, slots=True)
class Bits:
    """Storage of an array."""

    ram: int
    cam: int = 0

    @property
    def all(self) -> int:
        """All bits."""
        return self.ram + self.cam

    @property
    def rbe(self) -> float:
        """Area in register bit equivalents."""
        return RBE_ARRAY + RBE_RAM * self.ram + RBE_CAM * self.cam


def _log2(path: str, value: int) -> int:
    if value < 1 or value & (value - 1):
        raise InputError(f"{path} = {value}: must be a power of two")
    return value.bit_length() - 1


def _split(size: int, line: int, ways: int, address: int) -> tuple[int, int, int]:
    """Entries, index bits and tag bits."""
    lines = size // line
    if not 0 < ways <= lines:
        raise InputError(f"ways = {ways}: a cache of {size} B with lines of {line} B has 1 to {lines} ways")
    index = _log2("size / line / ways", lines // ways)
    tag = address - index - _log2("line", line)
    if tag < 1:
        raise InputError(f"size = {size} B: no tag is left of {address} address bits")
    return lines, index, tag


def cache(size: int, line: int, ways: int, address: int = 32) -> Bits:
    """A write-back cache: data, tag, valid and dirty of each line."""
    lines, _, tag = _split(size, line, ways, address)
    return Bits(lines * (8 * line + tag + 2))


def entry(size: int, line: int, ways: int, address: int = 32) -> Entry:
    """An entry of the table beside a cache. Raises InputError for what cannot be a cache.

    >>> entry(1 << 20, 128, 4).bits
    42
    """
    _, index, tag = _split(size, line, ways, address)
    return Entry(target=tag, source=tag + index)


def copy_table(size: int, line: int, ways: int, address: int = 32) -> Bits:
    """The indexing table beside a cache, as many entries as lines. Raises InputError for what cannot be a cache.

    >>> round(100 * copy_table(1 << 20, 16, 4).all / cache(1 << 20, 16, 4).all, 1)
    31.2
    """
    entries, _, _ = _split(size, line, ways, address)
    each = entry(size, line, ways, address)
    # Targets and sources are searched: CAM. Valid and MESI are RAM.
    return Bits(entries * each.state, entries * (each.target + each.source))


def table_of_section_1_1(size: int, line: int, ways: int, address: int = 32) -> Bits:
    """What the paper's section 1.1 has beside a direct-mapped cache: tag of the target, index of the source, valid.

    >>> round(100 * table_of_section_1_1(1 << 20, 16, 4).all / cache(1 << 20, 16, 4).all, 1)
    20.1
    """
    entries, index, tag = _split(size, line, ways, address)
    return Bits(entries * (tag + index + 1))


def search_pj(size: int, line: int, ways: int, address: int = 32) -> dict[str, float]:
    """Energy of a search in pJ: of a class for a target (reads), and of all entries for a source (writes, evictions).

    >>> {of: round(pj, 2) for of, pj in search_pj(1 << 20, 128, 4).items()}
    {'target': 0.16, 'source': 591.87}
    """
    entries, _, _ = _split(size, line, ways, address)
    each = entry(size, line, ways, address)
    bits = {"target": ways * each.target, "source": entries * each.source}
    return {of: FJ_SEARCHED_BIT * n / 1e3 for of, n in bits.items()}


def hermes(cores: int = 8, warps: int = 32, entries: int = 1024) -> Bits:
    """Hermes' task FIFO (32 b an entry), delay commit queue (8 b) and look-up table of each core (16 b a warp): 5.5 KB.

    Zhu, Deng and Chen, "Hermes: an integrated CPU/GPU microarchitecture for IP routing", DAC 2011.

    >>> hermes().all / 8 / 1024
    5.5
    """
    return Bits(entries * 32 + entries * 8 + cores * warps * 16)


def write_buffer(entries: int = 8, line: int = 128, address: int = 32) -> Bits:
    """A write buffer that is searched by address."""
    return Bits(entries * (8 * line + 1), entries * (address - _log2("line", line)))


def controller_engine(entries: int = 16, address: int = 32, line: int = 128) -> Bits:
    """A copy engine in the memory controller: a queue of (source, target, bytes), and one line; both sizes assumed."""
    return Bits(entries * (2 * address + 20) + 8 * line)


def queue_caches(queues: int = 16, cells: int = 4, line: int = 64, address: int = 0) -> Bits:
    """SRAM for heads and tails of queues, `cells` lines each: 8 KiB for 16 queues and 4 cells of 64 B.

    Hasan, Chandra and Vijaykumar, ISCA 2003, section 4.5: 2 x m x q cells. On a cache-coherent server the tails are
    searched by address, for which `address` gives the bits (0 leaves it out).

    >>> queue_caches().all / 8 / 1024
    8.0
    """
    tags = queues * cells * (address - _log2("line", line)) if address else 0
    return Bits(2 * queues * cells * 8 * line, tags)


def document(size: int = 1 << 20, address: int = 32) -> dict[str, Any]:
    """Overheads of the copy table over line size and associativity, and other techniques; sizes in bits and rbe."""
    rows = []
    for line in LINES:
        for ways in WAYS:
            base = cache(size, line, ways, address)
            table = copy_table(size, line, ways, address)
            row: dict[str, Any] = {
                "line": line,
                "ways": ways,
                "cache_bits": base.all,
                "entry_bits": entry(size, line, ways, address).bits,
                "bits": table.all,
                "pct": 100 * table.all / base.all,
                "area_pct": 100 * table.rbe / base.rbe,
            }
            rows.append(row | {f"{of}_search_pj": pj for of, pj in search_pj(size, line, ways, address).items()})
    others = {
        "Hermes: task FIFO, DCQ, look-up tables": hermes(),
        "write buffer, 8 lines of 128 B": write_buffer(),
        "copy engine in the controller, 16 entries": controller_engine(),
        "heads and tails of 16 queues, 4 cells of 64 B": queue_caches(),
        "the same of 16 queues of a coherent NIC": queue_caches(address=address),
        "copy table of a 2 MB 8-way L2, 128 B lines": copy_table(2 << 20, 128, 8, address),
    }
    return {
        "cache_bytes": size,
        "address_bits": address,
        "copy_table": rows,
        "others": [{"technique": n, "bits": b.all, "bytes": b.all / 8, "rbe": b.rbe} for n, b in others.items()],
    }


def sentence(found: Mapping[str, Any]) -> str:
    """The answer: what a copy table costs beside a cache, over all its shapes."""
    kib = found["cache_bytes"] // 1024
    shares = [row["pct"] for row in found["copy_table"]]
    areas = [row["area_pct"] for row in found["copy_table"]]
    return (
        f"A copy table beside a cache of {kib} KiB takes {q.digits(min(shares), 2)} to {q.digits(max(shares), 2)} % of "
        f"its bits, and up to {q.digits(max(areas), 2)} % of its area."
    )


def tables(found: dict[str, Any]) -> list[Table]:
    """The document for people."""
    kib = found["cache_bytes"] // 1024
    overhead = printed.table(
        *(">line", ">ways", ">cache Kbit", ">entry, bits", ">bits", ">area", ">pJ for a target", ">for a source"),
        title=f"Copy table beside a cache of {kib} KiB, {found['address_bits']} address bits: % of it, pJ a search",
    )
    for row in found["copy_table"]:
        overhead.add_row(
            *(str(row["line"]), str(row["ways"]), f"{row['cache_bits'] / 1024:.0f}", str(row["entry_bits"])),
            *(f"{row[share]:.1f} %" for share in ("pct", "area_pct")),
            *(q.digits(row[f"{of}_search_pj"], 3) for of in ("target", "source")),
        )
    others = printed.table("technique", ">bits", ">KiB", ">area, rbe", title="Other techniques")
    for row in found["others"]:
        others.add_row(row["technique"], str(row["bits"]), f"{row['bytes'] / 1024:.2f}", f"{row['rbe']:.0f}")
    return [overhead, others]
