"""Techniques that a machine can have or not: what switches each on, where it fits, and what it costs.

They are those of the five systems that this project rebuilds, as far as they can be switched on a server of a scenario;
`ELSEWHERE` names the others, and where they are studied. Each is switched on by settings alone, so that all compose.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from wirespeed import _wirespeed, units
from wirespeed import cost as hardware
from wirespeed.advise import exclusions
from wirespeed.errors import InputError, nearest

Kind = Literal["setting", "bios", "software", "core", "hardware"]
WHO: Final[Mapping[Kind, str]] = {
    "setting": "Settings of driver and system",
    "bios": "Settings of the BIOS",
    "software": "Another program",
    "core": "More cores",
    "hardware": "New hardware",
}
"""Who can do it, from what an operator sets today to what has to be built: the cheapest first."""
IS: Final[Mapping[Kind, str]] = {
    "setting": "a setting",
    "bios": "a setting of the BIOS",
    "software": "another program",
    "core": "one more core",
    "hardware": "new hardware",
}
"""What a technique of each kind is."""
SHOWN: Final = 4
"""Sets of several techniques that are told of first, and of which more is measured than what is ranked by."""
Resolved = Mapping[str, Any]

_LINE: Final = 64
# What a device asks for at once after a reset, and at the most (PCI Express Base Specification, Device Control).
_READ_DEFAULT: Final = 512
_LONG_READ: Final = 4096
# A gain below this, in percent, is not worth a change.
WORTH: Final = 0.5
# Of physical addresses, for tags: what Skylake-SP has (Intel SDM volume 1, table 16-1, 46 bits).
_ADDRESS_BITS: Final = 46


@dataclass(frozen=True, slots=True)
class Cost:
    """What a technique takes: new SRAM (bits) and shader cores, cores, and ways that cores lose."""

    sram_bits: int = 0
    cores: int = 0
    ways: int = 0
    shader_cores: int = 0

    def __add__(self, other: Cost) -> Cost:
        added = other.numbers
        return Cost(**{name: number + added[name] for name, number in self.numbers.items()})

    @property
    def numbers(self) -> dict[str, int]:
        """By name."""
        return asdict(self)

    @property
    def words(self) -> str:
        """For people."""
        parts = [f"{self.shader_cores} shader cores"] if self.shader_cores else []
        parts += [f"{self.cores} core"] if self.cores else []
        parts += [f"{self.ways} ways"] if self.ways else []
        if self.sram_bits:
            kib = self.sram_bits / 8192
            parts.append(f"{kib:,.0f} KiB SRAM" if kib >= 1 else f"{self.sram_bits} bits")
        return ", ".join(parts) or "nothing"


@dataclass(frozen=True, slots=True)
class Technique:
    """One that fits: what it is, which system it is of, the settings that switch it on, and its cost."""

    name: str
    title: str
    system: str
    kind: Kind
    overrides: tuple[str, ...]
    cost: Cost


@dataclass(frozen=True, slots=True)
class Unfit:
    """One that does not fit, and why."""

    name: str
    title: str
    why: str


ELSEWHERE: Final[Mapping[str, str]] = {
    "the three architectures on an abstract table (Korikawa et al.)": "a model of its own: `wirespeed slices`",
    "batching, blocked output and row prefetch (Hasan et al.)": (
        "of the memory controller: `machine.dram.controller` behind this server, `wirespeed papers run "
        "2003-isca-hasan`, `wirespeed memory buffers`"
    ),
}

# What builds a technique for a resolved scenario: its settings and cost, or why it does not fit.
Built = tuple[list[str], Cost] | str
_Build = Callable[[Resolved], Built]


def fitting(resolved: Resolved) -> tuple[list[Technique], list[Unfit]]:
    """The techniques that fit a resolved scenario, and those that do not."""
    fit, unfit = [], []
    for name, title, system, kind, build in _ALL:
        built = build(resolved)
        if not isinstance(built, str):
            # What the scenario has stays, so that the technique has to go with it.
            built = exclusions.between(exclusions.tables(built[0]), resolved) or built
        if isinstance(built, str):
            unfit.append(Unfit(name, title, built))
        else:
            fit.append(Technique(name, title, system, kind, tuple(built[0]), built[1]))
    return fit, unfit


def _short_rings(of: Resolved) -> Built:
    descriptors = int(of["nic"]["rx_descriptors"])
    if descriptors <= _SHORT:
        return f"rings have {descriptors} descriptors already"
    return [f"nic.rx_descriptors={_SHORT}"], Cost()


def _small_pool(of: Resolved) -> Built:
    size = _pool(of, int(of["machine"]["cores"]) + 1)
    if size >= int(of["mempool"]["size"]):
        return f"a pool of {of['mempool']['size']} mbufs is the smallest for these rings"
    return [f"mempool.size={size}"], Cost()


def pool_behind(of: Resolved, chosen: Sequence[Technique]) -> Technique | None:
    """The pool as small as the rings allow that a set has made shorter; None where they stay, or it is no smaller."""
    settings = dict(override.split("=", 1) for each in chosen for override in each.overrides)
    if "nic.rx_descriptors" not in settings or "machine.gpu.preset" in settings:
        return None
    cores = int(settings.get("machine.cores", of["machine"]["cores"]))
    burst = int(settings.get("nic.burst", of["nic"]["burst"]))
    nic = {**of["nic"], "rx_descriptors": int(settings["nic.rx_descriptors"]), "burst": burst}
    size = _pool({**of, "nic": nic}, cores)
    if size >= int(settings.get("mempool.size", of["mempool"]["size"])):
        return None
    title = f"a mempool of {size} mbufs, as small as these rings allow"
    return Technique("small_pool", title, _CACHE, "setting", (f"mempool.size={size}",), Cost())


def _hot_mbufs(of: Resolved) -> Built:
    if of["mempool"].get("kind") == "lifo":
        return "the pool gives the mbuf freed last already"
    return ["mempool.kind=lifo"], Cost()


def _ordered_pool(of: Resolved) -> Built:
    if not of["mempool"].get("shuffled"):
        return "mbufs lie in the order of their use already"
    return ["mempool.shuffled=false"], Cost()


def _wide_io(of: Resolved) -> Built:
    if of.get("policy"):
        return "a policy sets the ways"
    llc = of["machine"]["llc"]
    ways, now = int(llc["ways"]), units.ways(llc["io_ways"])
    wanted = min(max(2 * now, 2), ways - 2)
    if wanted <= now:
        return f"{now} of {ways} ways are open to devices already"
    return [f"machine.llc.io_ways={wanted}"], Cost(ways=wanted - now)


def _isolated(of: Resolved) -> Built:
    if of.get("policy"):
        return "a policy sets the ways"
    llc = of["machine"]["llc"]
    ways = int(llc["ways"])
    # Also where devices have twice the ways: cores keep the rest, and at least half.
    kept = ways - min(2 * max(units.ways(llc["io_ways"]), 1), ways // 2)
    if llc.get("core_ways") is not None:
        return "cores have ways of their own already"
    return [f"machine.llc.core_ways={kept}"], Cost(ways=ways - kept)


def _allocator(of: Resolved) -> Built:
    if of.get("policy"):
        return "a policy sets the ways already"
    start = max(units.ways(of["machine"]["llc"]["io_ways"]), 1)
    return ["policy.kind=allocator", "policy.others=0", f"policy.io_ways={start}"], Cost()


def _held(of: Resolved) -> Built:
    programs = [each for each in of.get("neighbours") or [] if each.get("kind", "program") == "program"]
    if not programs:
        return "no program runs beside the packets"
    if of.get("policy"):
        return "a policy sets the classes"
    classes = of["machine"].get("clos") or {}
    if _CLASS in classes or any(each.get("neighbours") for each in classes.values()):
        return "neighbours are in classes of their own already"
    names = json.dumps(list(dict.fromkeys(each["name"] for each in programs)))
    # As many as they have in class 0: what is tried is the bandwidth alone.
    llc = of["machine"]["llc"]
    ways = json.dumps((classes.get("0") or {}).get("ways") or llc.get("core_ways") or llc["ways"])
    return [f'machine.clos.{_CLASS}={{ways={ways},neighbours={names},bandwidth="{_HELD_TO}"}}'], Cost()


def _io_age(of: Resolved) -> Built:
    llc = of["machine"]["llc"]
    if str(llc.get("replacement", "lru")).startswith("age"):
        return "the LLC replaces by age already"
    return ["machine.llc.replacement=age"], Cost(sram_bits=2 * _bytes(llc["size"]) // _LINE)


def _prefetcher(of: Resolved) -> Built:
    if of["machine"].get("prefetcher"):
        return "a prefetcher is on already"
    return ['machine.prefetcher={kind="next_line",degree=1}'], Cost()


def _long_reads(of: Resolved) -> Built:
    most = int(of["nic"]["pcie"].get("max_read", _READ_DEFAULT))
    if most >= _LONG_READ:
        return f"a read request asks for {most} B already"
    return [f"nic.pcie.max_read={_LONG_READ}"], Cost()


def _compressed(of: Resolved) -> Built:
    driver = of["nic"].get("driver") or {}
    if driver.get("compressed"):
        return "completions are compressed already"
    if driver.get("preset") != "mlx5":
        return "the driver is not mlx5, whose compressed receive path is counted"
    whole, compressed = (tomllib.loads(_wirespeed.preset("driver", name)) for name in ("mlx5", "mlx5-compressed"))
    # What the two do not share; the user's own settings stay.
    had, has = whole["nic"]["driver"], compressed["nic"]["driver"]
    other = [f"nic.driver.{field}={json.dumps(value)}" for field, value in has.items() if had.get(field) != value]
    return other, Cost()


def _hash(of: Resolved) -> Built:
    llc = of["machine"]["llc"]
    if int(llc.get("slices", 1)) < 2 or llc.get("hash") in ("mixed", "even", "intel"):
        return "there is one slice" if int(llc.get("slices", 1)) < 2 else "the hash uses all address bits already"
    return ["machine.llc.hash=mixed"], Cost()


def _more_slices(of: Resolved) -> Built:
    slices = int(of["machine"]["llc"].get("slices", 1))
    lines = _bytes(of["machine"]["llc"]["size"]) // _LINE
    if (
        2 * slices > 64
        or lines % (2 * slices * int(of["machine"]["llc"]["ways"]))
        or of["machine"]["llc"]["hash"] == "intel"
    ):
        return f"{slices} slices cannot be halved further"
    return [f"machine.llc.slices={2 * slices}"], Cost()


def _huge_pages(of: Resolved) -> Built:
    tlb = of["machine"].get("tlb")
    if not tlb:
        return "address translation is free on this machine (it has no machine.tlb)"
    if tlb["page"] == "1 GiB":
        return "pages of 1 GiB are used already"
    return ['machine.tlb.page="1 GiB"'], Cost()


def _copy_table(of: Resolved) -> Built:
    if of["machine"].get("copy_table"):
        return "there is a copy table already"
    if not of["function"].get("copy"):
        return "nothing is copied (no function.copy)"
    bits = hardware.copy_table(_COPY_ENTRIES * _LINE, _LINE, 8, _ADDRESS_BITS).all
    return [f"machine.copy_table.entries={_COPY_ENTRIES}"], Cost(sram_bits=bits)


def _bulk(of: Resolved) -> Built:
    where = "upf.processing" if of["function"].get("kind") == "upf" else "forward.lookup"
    outer, inner = where.split(".")
    given = of["function"].get(outer, {}).get(inner, {})
    if given.get("lookup", "bulk") == "bulk" and given.get("prefetch", True):
        return "lookups go through bursts stage by stage, with prefetches, already"
    return [f"function.{where}.lookup=bulk", f"function.{where}.prefetch=true"], Cost()


def _long_bursts(of: Resolved) -> Built:
    burst = int(of["nic"]["burst"])
    if burst >= 64:
        return f"bursts have {burst} packets already"
    return ["nic.burst=64"], Cost()


def _pipeline(of: Resolved) -> Built:
    if of.get("pipeline"):
        return "cores form a pipeline already"
    if int(of["machine"]["cores"]) < 2:
        return "there is one core"
    return ["pipeline.rx_cores=1"], Cost()


def _core_more(of: Resolved) -> Built:
    cores = int(of["machine"]["cores"]) + 1
    pool = _pool(of, cores)
    larger = [f"mempool.size={pool}"] if pool > int(of["mempool"]["size"]) else []
    return [f"machine.cores={cores}", *larger], Cost(cores=1)


def _closed_rows(of: Resolved) -> Built:
    if of["machine"]["dram"].get("page") == "closed":
        return "rows close behind each line already"
    return ["machine.dram.page=closed"], Cost()


def _stacked(of: Resolved) -> Built:
    dram = of["machine"]["dram"]
    if int(dram["channels"]) >= _STACK_CHANNELS:
        return f"the DRAM has {dram['channels']} channels already"
    return [f"machine.dram.standard={_STACK}"], Cost()


def _skip_llc(of: Resolved) -> Built:
    if why := _is_told_apart(of):
        return why
    return [f"machine.applications.tables.skip.threshold={_SKIP_ABOVE}"], Cost()


def _bypass(of: Resolved) -> Built:
    if why := _is_told_apart(of):
        return why
    # A tag for each line of the LLC, of lines that were missed before.
    lines = _bytes(of["machine"]["llc"]["size"]) // _LINE
    return ["machine.applications.tables.bypass=true"], Cost(sram_bits=_TAG_BITS * lines)


def _own_slices(of: Resolved) -> Built:
    slices = int(of["machine"]["llc"].get("slices", 1))
    if why := _is_told_apart(of):
        return why
    if slices < _LEAST_SLICES:
        return f"the LLC has {slices} slices"
    return [f"machine.applications.tables.slices={slices // 2}"], Cost()


def _is_told_apart(of: Resolved) -> str | None:
    named = "tables" in of["machine"].get("applications", {})
    return "the LLC tells the tables apart already" if named else None


def _stacked_tables(of: Resolved) -> Built:
    if of["machine"].get("stacked"):
        return "tables lie in stacked DRAM already"
    return ["machine.stacked.memory.channels=32"], Cost()


def _packet_buffer(of: Resolved) -> Built:
    if of.get("buffer"):
        return "packets lie in a buffer of their own already"
    return ["buffer.allocation=piecewise"], Cost()


def _shared_ring(of: Resolved) -> Built:
    nic = of["nic"]
    if nic.get("rings", "private") != "private":
        return f"rings are {nic['rings']} already"
    if int(of["machine"]["cores"]) < 2:
        return "there is one core"
    held = int(of["machine"]["cores"]) * int((nic.get("driver") or {}).get("rx_bulk", _BULK))
    if int(nic["rx_descriptors"]) < held:
        return "the ring is smaller than what its cores keep to post at once"
    return ["nic.rings=shared", *_completions(of)], Cost()


def _bisected_ring(of: Resolved) -> Built:
    if of["nic"].get("rings", "private") != "private":
        return f"rings are {of['nic']['rings']} already"
    if int(of["machine"]["cores"]) < 2:
        return "there is one core"
    return ["nic.rings=bisected", *_completions(of)], Cost()


def _completions(of: Resolved) -> list[str]:
    """What a NIC needs that tells of packets elsewhere than in the descriptors of their buffers."""
    if int((of["nic"].get("driver") or {}).get("rx_completion", 0)) > 0:
        return []
    return [f"nic.driver.rx_completion={_COMPLETION}"]


def _stash(of: Resolved) -> Built:
    targets = of["nic"].get("targets") or {}
    if targets.get("header") == "l2":
        return "headers come to L2 already"
    return ["nic.targets.descriptors=l2", "nic.targets.header=l2"], Cost()


def _payload_past(of: Resolved) -> Built:
    targets = of["nic"].get("targets") or {}
    if targets.get("payload") == "memory" or not units.ways(of["machine"]["llc"]["io_ways"]):
        return "payload goes past the caches already"
    return ["nic.targets.payload=memory"], Cost()


def _storage_past(of: Resolved) -> Built:
    neighbours = of.get("neighbours") or []
    devices = [each for each in neighbours if each.get("kind") == "storage"]
    if not devices:
        return "no storage device writes into memory"
    if not units.ways(of["machine"]["llc"]["io_ways"]):
        return "devices have no ways of the LLC"
    if not any(each.get("dca", True) for each in devices):
        return "direct cache access is off for storage already"
    off = [{**each, "dca": False} if each.get("kind") == "storage" else each for each in neighbours]
    tables = (",".join(f"{name}={json.dumps(value)}" for name, value in each.items()) for each in off)
    return [f"neighbours=[{','.join(f'{{{table}}}' for table in tables)}]"], Cost()


def _drop_dead(of: Resolved) -> Built:
    if of["nic"].get("drop_dead"):
        return "dead lines are given up already"
    return ["nic.drop_dead=true"], Cost()


def _near_slice(of: Resolved) -> Built:
    if of["mempool"].get("start"):
        return "packets do not begin behind the usual headroom already"
    if not of["machine"]["llc"].get("interconnect"):
        return "all slices are equally far (no machine.llc.interconnect)"
    return [f"mempool.start={{near_slice={_LATER}}}"], Cost()


def _nic_payload(of: Resolved) -> Built:
    if of["nic"].get("payload_memory"):
        return "payload stays in the NIC already"
    return ["nic.payload_memory={}"], Cost()


def _elastic(of: Resolved) -> Built:
    if of["nic"].get("elastic"):
        return "packets wait in the NIC already"
    return ["nic.elastic={}"], Cost()


def _flow_credits(of: Resolved) -> Built:
    if (of["nic"].get("elastic") or {}).get("credits"):
        return "flows have credits already"
    if not units.ways(of["machine"]["llc"]["io_ways"]):
        return "the LLC has no I/O ways that credits could stand for"
    return ["nic.elastic.credits={}"], Cost()


def _gpu(of: Resolved) -> Built:
    told = _for_warps(of)
    if isinstance(told, str):
        return told
    return ["machine.gpu.preset=hermes", *_stays(of), *told], Cost(shader_cores=_HERMES_CORES)


def _gpu_card(of: Resolved) -> Built:
    told = _for_warps(of)
    if isinstance(told, str):
        return told
    return ["machine.gpu.preset=h100", *_stays(of), *told], Cost(shader_cores=_H100_CORES)


def _stays(of: Resolved) -> list[str]:
    """A kernel that stays, and a pool for what it has beside one core more."""
    pool = max(_pool(of, int(of["machine"]["cores"]) + 1, _TASKS * _WARP), int(of["mempool"]["size"]))
    return ["machine.gpu.posting=persistent", f"machine.gpu.fifo={_TASKS}", f"mempool.size={pool}"]


def _for_warps(of: Resolved) -> list[str] | str:
    """The last functions of a chain that a GPU can do, as a setting, or why it can do none."""
    if of["machine"].get("gpu"):
        return "packets go over a GPU already"
    if of["function"].get("kind") != "chain":
        return []
    able: list[str] = []
    chain = list(of["function"]["chain"])
    while chain and not exclusions.between({"function": {"kind": chain[-1]}}, {"machine": {"gpu": {}}}):
        able.insert(0, chain.pop())
    if not able:
        return f"{chain[-1]}, the chain's last function, has no form for a warp"
    return [f"machine.gpu.functions={json.dumps(able)}"] if chain else []


def _pool(of: Resolved, cores: int, offloaded: int = 0) -> int:
    """Mbufs of a pool that so many cores never find empty, while a GPU has `offloaded`: a power of two."""
    nic, pipeline = of["nic"], of.get("pipeline") or {}
    rings = nic.get("rings", "private")
    deliveries = int(nic.get("deliveries") or 4 * int(nic["rx_descriptors"]))
    return _wirespeed.pool_of(
        cores=cores,
        receiving=min(int(pipeline.get("rx_cores", cores)), cores),
        rings=1 if rings == "shared" else None,
        arrivals=deliveries if rings == "bisected" else 0,
        ports=int(nic["ports"]),
        rx_descriptors=int(nic["rx_descriptors"]),
        tx_descriptors=int(nic["tx_descriptors"]),
        burst=int(nic["burst"]),
        cache=int(of["mempool"]["cache"]),
        queue=int(pipeline.get("queue", 0)),
        offloaded=offloaded,
    )


def _bytes(size: object) -> int:
    if isinstance(size, int | float):
        return int(size)
    return units.size("machine.llc.size", str(size))


_SHORT: Final = 256
# The last of those that MBA has: Intel's processors have 8 classes of it beside 16 of the LLC's.
_CLASS: Final = "7"
_HELD_TO: Final = "1 GB/s"
_STACK: Final = "hbm3-6400"
_STACK_CHANNELS: Final = 16
_COPY_ENTRIES: Final = 1 << 14
_SKIP_ABOVE: Final = 0.9
_TAG_BITS: Final = 32
_LEAST_SLICES: Final = 4
# Of a kernel that stays, assumed: 4,096 packets at most are with it.
_TASKS: Final = 128
_WARP: Final = 32
# Table 1 of the paper, whose FIFO and DCQ of 5.5 KiB are software's here; 132 SMs of four schedulers.
_HERMES_CORES: Final = 8
_H100_CORES: Final = 528
# Of a completion, where the NIC has none: the least that holds a length, a hash and the number of a buffer (assumed).
_COMPLETION: Final = 32
# `rx_bulk` where no driver is named: crates/machine/src/nic/driver_spec.rs.
_BULK: Final = 32
# Lines by which a packet may begin later, so that 1518 B fit behind it in an mbuf of the usual size.
_LATER: Final = 8
_RINGS, _PLACING = "shared rings (2023, 2025)", "placing of DMA (2019-2025)"
_CACHE, _SLICES, _COPY = "5GC2ache (2024)", "sliced LLC (2020)", "copy table (2010)"
_GPU, _ROWS = "Hermes (2011)", "row locality (2003)"
_ALL: Final[tuple[tuple[str, str, str, Kind, _Build], ...]] = (
    ("short_rings", f"receive rings of {_SHORT} descriptors", _CACHE, "setting", _short_rings),
    ("small_pool", "a mempool as small as rings allow", _CACHE, "setting", _small_pool),
    ("hot_mbufs", "a mempool that gives the mbuf freed last", _CACHE, "setting", _hot_mbufs),
    ("wide_io", "twice the LLC ways for devices", _CACHE, "setting", _wide_io),
    ("isolated", "LLC ways of cores apart from those of devices", _CACHE, "setting", _isolated),
    ("allocator", "the four-state allocator of LLC ways (wirespeedd)", _CACHE, "software", _allocator),
    ("held", f"other programs held to {_HELD_TO} of memory a core (MBA)", _CACHE, "setting", _held),
    ("io_age", "device lines leave the LLC first (2-bit ages)", _CACHE, "hardware", _io_age),
    ("prefetcher", "the next-line prefetcher of L2", _CACHE, "bios", _prefetcher),
    ("long_reads", f"PCIe read requests of {_LONG_READ:,} B", "", "setting", _long_reads),
    ("compressed", "compressed completions", "", "setting", _compressed),
    ("hash", "slices by a hash of all address bits", _SLICES, "hardware", _hash),
    ("more_slices", "twice the slices, each with a queue", _SLICES, "hardware", _more_slices),
    ("huge_pages", "pages of 1 GiB", _SLICES, "setting", _huge_pages),
    ("copy_table", f"a copy table of {_COPY_ENTRIES} entries", _COPY, "hardware", _copy_table),
    ("bulk", "lookups by bursts, with prefetches", _GPU, "software", _bulk),
    ("long_bursts", "bursts of up to 64 packets", _GPU, "setting", _long_bursts),
    ("pipeline", "one core receives, the others work", _CACHE, "software", _pipeline),
    ("ordered_pool", "mbufs in the order of their addresses", _ROWS, "software", _ordered_pool),
    ("packet_buffer", "packets in piece-wise linear pages, not in mbufs", _ROWS, "hardware", _packet_buffer),
    ("closed_rows", "DRAM rows that close behind each line", _ROWS, "bios", _closed_rows),
    ("stacked_dram", f"stacked DRAM ({_STACK}) behind the LLC", _SLICES, "hardware", _stacked),
    ("stacked_tables", "tables in stacked DRAM, a copy on each of 32 channels", _SLICES, "hardware", _stacked_tables),
    ("own_slices", "half of the LLC slices for tables alone", _SLICES, "software", _own_slices),
    ("skip_llc", f"tables skip the LLC above {_SKIP_ABOVE:.0%} misses", _SLICES, "hardware", _skip_llc),
    ("bypass", "table lines enter the LLC once used again", _SLICES, "hardware", _bypass),
    ("shared_ring", "one receive ring for all cores", _RINGS, "hardware", _shared_ring),
    ("bisected_ring", "empty buffers and arrivals in rings apart", _RINGS, "hardware", _bisected_ring),
    ("stash_header", "completions and headers to L2 by steering tags", _PLACING, "hardware", _stash),
    ("payload_past", "payload past the caches", _PLACING, "hardware", _payload_past),
    ("storage_past", "direct cache access off for storage alone", _PLACING, "setting", _storage_past),
    ("drop_dead", "dead packet lines given up, not written back", _PLACING, "hardware", _drop_dead),
    ("near_slice", "headers in the slice nearest to their core", _PLACING, "software", _near_slice),
    ("nic_payload", "payload stays in the NIC (1 MiB of its memory)", _PLACING, "hardware", _nic_payload),
    ("elastic_nic", "packets without a descriptor wait in the NIC", _PLACING, "hardware", _elastic),
    ("flow_credits", "packets of flows without credits wait in the NIC", _PLACING, "hardware", _flow_credits),
    ("core", "one more core, with its ring", "", "core", _core_more),
    ("gpu", "a GPU of 8 shader cores on the server's memory (Hermes)", _GPU, "hardware", _gpu),
    ("gpu_card", "a GPU of 528 shader cores behind PCIe (an H100)", _GPU, "hardware", _gpu_card),
)


ASKED_FOR: Final[Mapping[str, str]] = {
    name: f"another machine works on the packets, and all else is judged beside it: --with {name} tries it"
    for name in ("gpu", "gpu_card")
}
"""What is tried only where it is asked for, and why."""


RELIEVES_PCIE: Final = ("long_reads", "compressed", "nic_payload")
"""What puts less on the link to the host."""


FASTER_LINK: Final = "faster_link"


def faster_link(of: Resolved) -> Technique:
    """What a link of the next generation of PCIe is: twice as fast. It is tried where the link is full, alone."""
    rate = of["nic"]["pcie"]["rate"]
    bits = float(rate) * 1e9 if isinstance(rate, int | float) else units.rate("nic.pcie.rate", str(rate)).value
    setting = f'nic.pcie.rate="{2 * bits / 1e9:g} Gbps"'
    return Technique(FASTER_LINK, "a link to the host twice as fast", "", "hardware", (setting,), Cost())


def excluded(technique: Technique, among: Sequence[Technique]) -> str | None:
    """Why a technique does not go together with one of these; None where it does."""
    switched = technique.overrides[0].partition("=")[0]
    for other in among:
        if other.overrides[0].partition("=")[0] == switched:
            reason: str | None = f"both set {switched}"
        else:
            reason = exclusions.between(exclusions.tables(technique.overrides), exclusions.tables(other.overrides))
        if reason:
            return f"not with {other.name}: {reason} (--without {other.name} tries it)"
    return None


def combined(techniques: list[Technique]) -> Cost:
    """What techniques cost together."""
    total = Cost()
    for each in techniques:
        total += each.cost
    return total


def order(techniques: list[Technique]) -> tuple[int, ...]:
    """Cheaper sets are less: by what needs another chip, its shader cores and SRAM, cores, ways lost, settings."""
    total = combined(techniques)
    new = sum(each.kind == "hardware" for each in techniques)
    return (new, total.shader_cores, total.sram_bits, total.cores, total.ways, len(techniques))


def named(names: list[str], among: list[Technique]) -> list[Technique]:
    """The techniques of these names."""
    by_name = {each.name: each for each in among}
    return [by_name[name] for name in names]


def left_out(names: Sequence[str], also: Sequence[str], among: Sequence[Technique]) -> list[Unfit]:
    """Those of `names`, and what is tried only where it is among `also`. Raises InputError for an unknown name."""
    known = [*(name for name, *_ in _ALL), FASTER_LINK]
    for option, asked, allowed in (("--without", names, known), ("--with", also, list(ASKED_FOR))):
        for name in asked:
            if name not in allowed:
                raise InputError(f"{option} {name}: must be one of {', '.join(allowed)}{nearest(name, allowed)}")
    whys = {each.name: "left out with --without" for each in among if each.name in names}
    whys |= {each.name: ASKED_FOR[each.name] for each in among if each.name in ASKED_FOR and each.name not in also}
    return [Unfit(each.name, each.title, whys[each.name]) for each in among if each.name in whys]


def sign(goal: str) -> int:
    """1 where more is better, -1 where less is."""
    return -1 if goal == "p99" else 1


def surely(effect: Mapping[str, Any] | None, better: int, of: int, worth: float = WORTH) -> bool:
    """Whether a change is for the better, and of so many that are looked at no other one is so by chance.

    `better` is 1 where more is, -1 where less is. All intervals hold together with 95 % (Bonferroni). A gain of less
    than `worth` is none.
    """
    from scipy.special import ndtri, stdtrit

    if effect is None:
        return False
    degrees, outside = effect.get("degrees"), 0.025 / max(of, 1)
    if degrees is None:
        together = float(ndtri(1 - outside) / ndtri(0.975))
    else:
        together = float(stdtrit(degrees, 1 - outside) / stdtrit(degrees, 0.975))
    return bool(better * effect["pct"] > max(together * effect["half_width_pct"], worth))


def helps(ranked: Sequence[Mapping[str, Any]], goal: str) -> list[Mapping[str, Any]]:
    """Those of ranked techniques that surely help alone: the cheapest first, by who can do it, then the best."""
    better = sign(goal)
    sure = [each for each in ranked if surely(each["alone"][goal], better, len(ranked))]
    return sorted(sure, key=lambda each: (list(WHO).index(each["kind"]), -better * each["alone"][goal]["pct"]))
