"""Facts of several files as one scenario: which of two values wins, what is assumed, and what differs.

Running state counts more than a command line, that more than a configuration, and that more than a program's default; a
kernel's ring counts only where nobody tells of DPDK's. Of equals the file that was named first wins. Whatever loses is
listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from wirespeed.errors import InputError
from wirespeed.operators import catalogue
from wirespeed.operators.facts import FACTS, SLOWEST_CLOCK, Fact, Told, Trust, Value

State = Literal["told", "derived", "assumed"]

# Readings of rates and sizes differ by so much and still agree.
_SAME: Final = 0.02
_READINGS: Final = ("packet_rate", "frame_bytes", "tsc", "frequency", "link")
# Several are normal: a host has NICs of its own, and drivers have several names.
_MANY: Final = ("cpu_vendor", "hypervisor", "dimm_type", "rx_queues")
_OF_CATALOGUE: Final = ("nic", "nic_id", "driver", "cpu")
# What of the kernel's driver says nothing about a program on DPDK.
_KERNELS: Final = ("rx_descriptors", "tx_descriptors", "rx_queues", "rx_most")
MOST_CORES: Final = 64
"""Cores that the simulator has at most."""
MOST_POOL: Final = 1 << 24
_CACHE: Final = 512
_MBUF: Final = 2368
_LINE: Final = 64


@dataclass(frozen=True, slots=True)
class Chosen:
    """A setting of the scenario, where it comes from, and whether a file told it."""

    path: str
    value: object
    where: str
    state: State


@dataclass(frozen=True, slots=True)
class Conflict:
    """One fact of several values: the one that was taken, and the others."""

    name: str
    taken: Fact
    others: tuple[Fact, ...]


@dataclass(slots=True)
class Joined:
    """What files tell together."""

    facts: dict[str, Fact]
    conflicts: list[Conflict]
    settings: list[Chosen] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def value(self, name: str) -> Value | None:
        """The value that was taken of a fact."""
        fact = self.facts.get(name)
        return None if fact is None else fact.value

    def number(self, name: str) -> float | None:
        """The same of a number."""
        value = self.value(name)
        return None if value is None or isinstance(value, str) else value

    def whole(self, name: str) -> int | None:
        """The same of a whole number."""
        value = self.number(name)
        return None if value is None else round(value)

    def say(self, path: str, value: object, where: str, state: State = "told") -> None:
        """Adds a setting."""
        self.settings.append(Chosen(path, value, where, state))

    def take(self, path: str, name: str, value: object = None) -> bool:
        """Adds a setting that a fact tells; whether there is one. A default is assumed, and not told."""
        fact = self.facts.get(name)
        if fact is None:
            return False
        state: State = "assumed" if fact.trust is Trust.DEFAULT else "told"
        note = f": {fact.note}" if fact.note else ""
        self.say(path, fact.value if value is None else value, f"{fact.where}{note}", state)
        return True


def join(told: Sequence[Told]) -> Joined:
    """One scenario of what files tell. Raises InputError where they tell nothing."""
    if not any(each.facts or each.measured for each in told):
        files = ", ".join(dict.fromkeys(each.file for each in told))
        raise InputError(f"{files}: nothing in it is a setting or a measurement of a scenario")
    joined = Joined(*_chosen(fact for each in told for fact in each.facts))
    _leave_kernels(joined)
    for part in (_program, _processor, _dimms, _nic, _rings, _pool, _traffic):
        part(joined)
    return joined


def _leave_kernels(joined: Joined) -> None:
    """Leaves out rings and queues of the kernel's driver where a program is told, all of which bring their own."""
    if "program" not in joined.facts and "function" not in joined.facts:
        return
    for name in _KERNELS:
        if name in joined.facts and joined.facts[name].trust is Trust.KERNEL:
            fact = joined.facts.pop(name)
            joined.notes.append(f"{fact.where}: {FACTS[name].words} {fact.value} are the kernel's, not the program's")


def _chosen(facts: Iterable[Fact]) -> tuple[dict[str, Fact], list[Conflict]]:
    by_name: dict[str, list[Fact]] = {}
    for fact in facts:
        by_name.setdefault(fact.name, []).append(fact)
    taken, conflicts = {}, []
    for name, several in by_name.items():
        first = max(several, key=lambda fact: (_known(fact), fact.trust))  # of equals the first
        taken[name] = first
        others = tuple(fact for fact in several if fact.trust > Trust.DEFAULT and not _agree(first, fact))
        if name in _OF_CATALOGUE:
            others = tuple(fact for fact in others if _known(fact) and _part(fact) != _part(first))
        if others and name not in _MANY:
            conflicts.append(Conflict(name, first, others))
    return taken, conflicts


def _known(fact: Fact) -> bool:
    """Whether a name is one of the catalogue's: of the NICs of a host the one that packets go through is meant."""
    return fact.name not in _OF_CATALOGUE or _part(fact) is not None


def _part(fact: Fact) -> str | None:
    """The part of the catalogue that a fact names."""
    words = str(fact.value)
    if fact.name in ("nic", "nic_id"):
        found = catalogue.nic(words)
        return found and found[0]
    if fact.name == "driver":
        return catalogue.driver(words)
    part = catalogue.processor({"cpu": words})
    return None if part == catalogue.processor({}) else part.preset


def _agree(a: Fact, b: Fact) -> bool:
    if isinstance(a.value, str) or isinstance(b.value, str) or a.name not in _READINGS:
        return a.value == b.value
    return abs(a.value - b.value) <= _SAME * max(abs(a.value), abs(b.value))


def size_words(bytes_: int) -> str:
    """A size as scenarios have it.

    >>> size_words(33554432), size_words(49152), size_words(2368)
    ('32 MiB', '48 KiB', '2368 B')
    """
    for scale, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if bytes_ % scale == 0:
            return f"{bytes_ // scale} {unit}"
        if unit == "MiB" and bytes_ > scale and bytes_ * 100 % scale == 0:
            return f"{bytes_ / scale:g} MiB"
    return f"{bytes_} B"


def _processor(joined: Joined) -> None:
    """The processor of the catalogue, and what of its caches and its clock the files tell otherwise."""
    part = catalogue.processor({name: fact.value for name, fact in joined.facts.items()})
    fact = joined.facts.get("cpu")
    name = f"{fact.where}: {fact.value}" if fact else ""
    why = "; ".join(filter(None, (name, part.why)))
    joined.say("machine.processor", part.preset, why, "told" if part.is_exact else "assumed")
    machine = catalogue.resolved(f'machine.processor = "{part.preset}"')["machine"]
    guest = joined.value("hypervisor") is not None and part.is_exact
    if guest:
        joined.notes.append("caches are those of the catalogue: a virtual machine need not show its host's")
    else:
        _caches(joined, machine)
    if not part.is_exact:
        _clock(joined)
    sockets, nodes = joined.whole("sockets") or 1, joined.whole("numa_nodes") or 1
    if sockets > 1:
        joined.notes.append(
            f"{sockets} sockets: one is described, with cores, NIC and memory on it; machine.sockets describes several"
        )
    if nodes > sockets:
        joined.notes.append(f"{nodes} NUMA nodes on {sockets} sockets: LLC and channels are those of a whole socket")


def _caches(joined: Joined, machine: Mapping[str, Mapping[str, object]]) -> None:
    """Sizes and ways that differ from the catalogue's; a size is whole sets of all slices, as tools round it."""
    for level in ("l1", "l2", "llc"):
        size, ways = joined.whole(f"{level}_bytes"), joined.whole(f"{level}_ways")
        has, slices = catalogue.resolved_size(str(machine[level]["size"])), int(str(machine[level].get("slices", 1)))
        if ways is not None and ways != machine[level]["ways"]:
            joined.take(f"machine.{level}.ways", f"{level}_ways")
        if size is None:
            continue
        unit = (ways or int(str(machine[level]["ways"]))) * _LINE
        count = _slices(size, has / slices, unit) if level == "llc" else 1
        exact = max(round(size / (count * unit)), 1) * count * unit
        if exact != has:
            joined.take(f"machine.{level}.size", f"{level}_bytes", size_words(exact))
        if count != slices:
            why = f"of {size_words(has // slices)}, as the catalogue has them, or what divides the sets"
            joined.say(f"machine.{level}.slices", count, why, "assumed")


def _slices(size: int, slice_: float, unit: int) -> int:
    """As many slices of the catalogue's size as make the cache, or the next number that divides its sets."""
    wanted = max(1, min(64, round(size / slice_)))
    sets, rest = divmod(size, unit)
    if rest:
        return wanted  # a rounded size, which is rounded to whole sets
    return next((count for count in range(wanted, 1, -1) if sets % count == 0), 1)


def _clock(joined: Joined) -> None:
    if joined.number("frequency"):
        joined.take("machine.core.frequency", "frequency", _gigahertz(joined.number("frequency") or 0))
    elif (joined.number("tsc") or 0) >= SLOWEST_CLOCK:
        value = _gigahertz(joined.number("tsc") or 0)
        joined.say(
            "machine.core.frequency",
            value,
            f"{joined.facts['tsc'].where}: the TSC's, taken as the base clock",
            "assumed",
        )


def _gigahertz(hertz: float) -> str:
    return f"{hertz / 1e9:.4g} GHz"


def _dimms(joined: Joined) -> None:
    """Channels and their rate, where DIMMs are told; a DIMM of DDR5 is two channels of half the width."""
    processor = next(each.value for each in joined.settings if each.path == "machine.processor")
    dram = catalogue.resolved(f'machine.processor = "{processor}"')["machine"]["dram"]
    is_ddr5 = str(joined.value("dimm_type") or dram.get("currents", "")).upper().startswith("DDR5")
    parts, transfers = (2, 16) if is_ddr5 else (1, 8)
    has = int(dram["channels"])
    channels, dimms = joined.whole("dimm_channels"), joined.whole("dimms")
    sockets = joined.whole("sockets") or 1
    if "dimms" in joined.facts and "standard" not in dram:
        found = max(1, channels or (dimms or 1) // sockets) * parts
        where = joined.facts["dimms"].where
        told = f"{where}: {dimms} DIMMs on {sockets} sockets"
        if found != has and found < has:
            why = told if channels else f"{told}, a channel each"
            joined.say("machine.dram.channels", found, why, "derived" if channels else "assumed")
        elif found > has:
            joined.notes.append(f"{told}: more than one a channel; the catalogue's {has} channels are taken")
    if (rate := joined.number("dimm_rate")) and "standard" not in dram:
        burst = f"{transfers * 1e3 / rate:.3g} ns"
        if burst != dram["t_burst"]:
            where = f"{joined.facts['dimm_rate'].where}: {transfers} transfers at {rate:g} MT/s"
            joined.say("machine.dram.t_burst", burst, where, "derived")


def _nic(joined: Joined) -> None:
    """The NIC, its driver and its ports."""
    named = next(
        (
            (joined.facts[name], found)
            for name in ("nic_id", "nic")
            if name in joined.facts and (found := catalogue.nic(str(joined.value(name)))) is not None
        ),
        None,
    )
    of = joined.facts.get("driver")
    driver = None if of is None else catalogue.driver(str(of.value))
    link = joined.number("link")
    if named is not None:
        fact, (model, usual) = named
        joined.say("nic.model", model, f"{fact.where}: {fact.value}")
    else:
        model, usual = (driver and catalogue.nic_of_driver(driver, link)) or catalogue.ANY_NIC, driver or ""
        told = f"{of.where}: driver {of.value}; " if of else ""
        why = "taken for it" if model != catalogue.ANY_NIC else "a NIC of no vendor: none that is known is named"
        joined.say("nic.model", model, f"{told}{why}", "assumed")
    chosen = driver or usual
    if chosen:
        state: State = "told" if driver else "assumed"
        joined.say("nic.driver", chosen, f"{of.where}: {of.value}" if driver and of else "the NIC's usual", state)
    elif of is not None:
        joined.notes.append(
            f"{of.where}: no shipped driver is `{of.value}`; one of the order of i40e's scalar path stands for it"
        )
    nic = catalogue.resolved(f'nic.model = "{model}"')["nic"]
    if not joined.take("nic.ports", "ports", min(joined.whole("ports") or 1, 64)):
        joined.say("nic.ports", int(nic["ports"]), "the NIC's", "assumed")
    if link is not None and catalogue.resolved_rate(str(nic["rate"])) != link:
        joined.take("nic.rate", "link", f"{link / 1e9:g} Gbps")


def _setting(joined: Joined, path: str) -> object:
    return next((each.value for each in joined.settings if each.path == path), None)


def _rings(joined: Joined) -> None:
    """Cores, queues, rings and bursts."""
    if not joined.take("machine.cores", "cores", min(joined.whole("cores") or 1, MOST_CORES)):
        joined.say("machine.cores", 1, "no file tells", "assumed")
    cores = int(str(_setting(joined, "machine.cores")))
    if (joined.whole("cores") or 1) > MOST_CORES:
        joined.notes.append(f"{joined.whole('cores')} cores forward: the simulator has up to {MOST_CORES}")
    queues = joined.whole("all_rx_queues")
    if queues is None and joined.whole("rx_queues"):
        queues = (joined.whole("rx_queues") or 1) * int(str(_setting(joined, "nic.ports")))
    each = max(1, min((queues or cores) // cores, 16, max(1, 128 // cores)))
    if queues is not None and queues % cores:
        joined.notes.append(f"{queues} RX queues on {cores} cores: each is taken to poll {each}")
    if each > 1:
        joined.say(
            "nic.queues_per_core", each, f"{queues} RX queues, {cores} core{'' if cores == 1 else 's'}", "derived"
        )
    if not joined.take("nic.burst", "burst"):
        _of_program(joined, "nic.burst")
    least = max(int(str(_setting(joined, "nic.burst"))), 64)
    for way in ("rx", "tx"):
        name = f"{way}_descriptors"
        value = joined.whole(name)
        if value is not None and value < least:
            joined.say(
                f"nic.{name}", least, f"{joined.facts[name].where}: {value}; the simulator's least here", "derived"
            )
        elif not joined.take(f"nic.{name}", name):
            joined.say(f"nic.{name}", max(1024, least), "no file tells; the default of VPP and l3fwd", "assumed")


def _of_program(joined: Joined, path: str) -> None:
    """A setting as the shipped program has it, where no file tells."""
    program = _setting(joined, "function.program")
    table, _, key = path.partition(".")
    found = catalogue.resolved(f'function.program = "{program}"' if program else "")[table][key]
    of = f"{program}'s own" if program else "the machine preset's"
    joined.say(path, found, f"no file tells; {of}", "assumed")


def _pool(joined: Joined) -> None:
    """The pool: no smaller than what rings, bursts and caches may hold, or it is said."""
    cores, ports, rx, tx, burst = (
        int(str(_setting(joined, path) or 1))
        for path in ("machine.cores", "nic.ports", "nic.rx_descriptors", "nic.tx_descriptors", "nic.burst")
    )
    queues = int(str(_setting(joined, "nic.queues_per_core") or 1))
    if not joined.take("mempool.cache", "pool_cache", min(joined.whole("pool_cache") or 0, _CACHE)):
        _of_program(joined, "mempool.cache")
    kept = cores * int(str(_setting(joined, "mempool.cache"))) * 3 // 2
    held = cores * (rx * queues + ports * tx + burst) + kept
    told = joined.whole("pool_size")
    if told is not None and told >= held:
        joined.take("mempool.size", "pool_size", min(told, MOST_POOL))
    else:
        size = min(1 << (held - 1).bit_length(), MOST_POOL)
        why = "no file tells"
        if told is not None:
            where = joined.facts["pool_size"].where
            why = f"{where}: {told}, and rings, bursts and caches may hold {held}"
            joined.notes.append(f"the pool is too small ({why}): packets may find no mbuf; the scenario has {size}")
        joined.say("mempool.size", size, why, "assumed" if told is None else "derived")
    joined.take("mempool.kind", "pool_order")
    element = joined.whole("pool_element")
    if element is not None and element % _LINE == 0 and _MBUF < element <= 1 << 16:
        joined.take("mempool.element", "pool_element", f"{element} B")


def _program(joined: Joined) -> None:
    """The program of the catalogue, or the nearest function."""
    program, function = joined.facts.get("program"), joined.facts.get("function")
    if function is not None and "sessions" in joined.facts:
        joined.take("function.kind", "function", "upf")
        joined.take("function.upf.sessions", "sessions")
        joined.take("function.upf.processing.address", "tunnel_address")
    elif function is not None and (program is None or program.trust <= function.trust):
        joined.say("function.kind", function.value, f"{function.where}: {function.note}", "assumed")
        joined.notes.append(f"what the program does is {function.note}")
    elif not joined.take("function.program", "program"):
        joined.say("function.kind", "forward", "no file tells what is done to packets: IP forwarding", "assumed")
    _tables(joined)


# What a function looks through where no file tells: a setting, how many, and of what.
_MADE: Final[Mapping[str, tuple[str, int, str]]] = {
    "classify": ("function.classify.made", 1000, "flows: so many rules are made"),
    "inspect": ("function.inspect.made", 2000, "rules: so many strings are made"),
}


def _tables(joined: Joined) -> None:
    """Sizes of tables, which outputs do not tell."""
    program, kind = _setting(joined, "function.program"), str(_setting(joined, "function.kind"))
    table = program and catalogue.resolved(f'function.program = "{program}"')["function"]["program"].get(
        "table", "none"
    )
    if kind in _MADE:
        path, count, why = _MADE[kind]
        joined.say(path, count, f"no file tells {why}", "assumed")
    elif kind == "forward" or table not in (None, "none"):
        found = catalogue.resolved("")["function"]["forward"]["prefixes"]
        why = "no file tells the routing table: a full one is made; `--table` takes yours"
        joined.say("function.forward.prefixes", found, why, "assumed")


_SMALLEST, _LARGEST = 64, 9600
_SLOWEST: Final = 100
"""Packets a second below which a run of a million packets takes longer than is simulated."""
_FCS: Final = 4
_PROFILE: Final = "isp"
"""The profile of traffic where none is named."""
_GAP: Final = 20
"""Preamble and gap of Ethernet."""


def _traffic(joined: Joined) -> None:
    """How much is offered, and how long frames are; counters of software leave the frame check sequence out."""
    if joined.take("traffic.capture", "capture"):
        rate = joined.number("packet_rate")
        if rate is not None:
            _offered(joined, rate)
        else:
            joined.say("traffic.packet_rate", _megapackets(0), "no file tells: the least that is simulated", "assumed")
        return
    joined.say("traffic.profile", _PROFILE, "no file tells flows, destinations and arrivals", "assumed")
    frame = joined.number("frame_bytes")
    if frame is not None:
        fact = joined.facts["frame_bytes"]
        counted = fact.note.endswith(("over packets", "over decoder.pkts"))
        frame = min(max(round(frame + (_FCS if counted else 0)), _SMALLEST), _LARGEST)
        why = f"{fact.where}: {fact.note}, in the mean{', and the 4 B of the FCS' if counted else ''}"
        joined.say("traffic.sizes", {"fixed": f"{frame} B"}, why, "derived")
    rate = joined.number("packet_rate")
    if rate is None:
        joined.say("traffic.load", 1.0, "no file tells a rate: line rate is offered", "assumed")
        return
    nic = catalogue.resolved(f'nic.model = "{_setting(joined, "nic.model")}"')["nic"]
    line = joined.number("link") or catalogue.resolved_rate(str(nic["rate"]))
    ports = int(str(_setting(joined, "nic.ports")))
    most = _most(line, frame or catalogue.mean_frame(_PROFILE))
    if frame is None and rate > most * ports:
        why = "no file tells; longer ones leave no room for the rate that is told"
        joined.say("traffic.sizes", {"fixed": f"{_SMALLEST} B"}, why, "assumed")
        most = _most(line, _SMALLEST)
    where = joined.facts["packet_rate"].where
    if rate > most * ports:
        why = f"{where}: {rate / 1e6:.4g} Mpps, more than {ports} ports carry: line rate is offered"
        joined.say("traffic.load", 1.0, why, "assumed")
        return
    if rate > most:
        joined.settings = [each for each in joined.settings if each.path != "nic.rate"]
        why = f"{ports} ports that receive, as one: packets come in by one port here"
        joined.say("nic.rate", f"{line * ports / 1e9:g} Gbps", why, "assumed")
    _offered(joined, rate)


def _offered(joined: Joined, rate: float) -> None:
    """The rate that a file tells; the least that is simulated in the place of a lower one, which nobody has told."""
    if rate >= _SLOWEST:
        joined.take("traffic.packet_rate", "packet_rate", _megapackets(rate))
        return
    where = joined.facts["packet_rate"].where
    why = f"{where}: {rate:.4g} packets a second; {_SLOWEST} are offered, since a run takes packets"
    joined.say("traffic.packet_rate", _megapackets(rate), why, "assumed")
    joined.notes.append(why)


def _megapackets(rate: float) -> str:
    return f"{max(rate, _SLOWEST) / 1e6:.6g} Mpps"


def _most(line: float, frame: float) -> float:
    """Packets a second that a link carries of frames, with preamble and gap."""
    return line / 8 / (max(frame, _SMALLEST) + _GAP)
