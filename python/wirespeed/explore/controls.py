"""What a hand can move: sliders, choices and switches, each with the settings that its positions stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from wirespeed import _wirespeed, units
from wirespeed import quantities as q
from wirespeed.advise import techniques
from wirespeed.errors import InputError, nearest

Kind = Literal["slider", "choice", "switch"]
ON: Final = "on"
LOAD: Final = "load"
"""The control that closed forms need no new profile for."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position: its value as the address of the page has it, what people read, and its settings."""

    value: str
    words: str
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Control:
    """Something to move; at position `own` the scenario is as it was given."""

    name: str
    label: str
    group: str
    kind: Kind
    positions: tuple[Position, ...]
    own: int
    paths: tuple[str, ...] = ()
    """The settings that it moves; none for techniques, which are settings of whatever machine there is."""
    detail: str = ""

    def overrides(self, value: str) -> tuple[str, ...]:
        """The settings of a value. A slider takes numbers between its positions, too. Raises InputError."""
        for each in self.positions:
            if each.value == value:
                return each.overrides
        known = [each.value for each in self.positions]
        if self.kind != "slider":
            raise InputError(f"{self.label}: `{value}` is not offered{nearest(value, known)}")
        found = units.parse(value)
        if found is None or found.kind != "count":
            raise InputError(f"{self.label}: `{value}` is no number")
        return (f"{self.paths[0]}={value}",)

    def words(self, value: str) -> str:
        """What people read of a value."""
        return next((each.words for each in self.positions if each.value == value), value)


def of_scenario(resolved: Mapping[str, Any]) -> list[Control]:
    """The controls of a resolved scenario."""
    sliders = [*_traffic(resolved), *_cores(resolved), *_rings(resolved), *_caches(resolved)]
    taken = {path for each in sliders for path in each.paths}
    return [*sliders, *_techniques(resolved, taken)]


def technique(resolved: Mapping[str, Any], name: str) -> techniques.Technique:
    """A technique on a machine as it is by now. Raises InputError where it does not fit."""
    fit, unfit = techniques.fitting(resolved)
    found = next((each for each in fit if each.name == name), None)
    if found is None:
        why = next((each.why for each in unfit if each.name == name), "no such technique")
        raise InputError(f"{name}: does not fit: {why}")
    return found


def _traffic(of: Mapping[str, Any]) -> list[Control]:
    own = of["traffic"].get("load")
    loads = [round(step / 20, 2) for step in range(1, 21)]
    said = next((str(value) for name, value in of["traffic"].items() if name in _RATES), "")
    load = _numbers(LOAD, "Load", "Traffic", "traffic.load", loads, own, lambda x: f"{x:.0%}".replace("%", " %"), said)
    if of["traffic"].get("capture"):
        return [load]  # its packets are as long as they are
    sizes = [Position("", f"as in the scenario{_of_sizes(of)}")]
    sizes += [Position(f"{n}", f"{n:,} B", (f"traffic.sizes={{fixed={n}}}",)) for n in _FRAMES]
    sizes.append(Position("imix", "IMIX 7:4:1", ("traffic.sizes=imix",)))
    return [load, Control("sizes", "Packet sizes", "Traffic", "choice", tuple(sizes), 0, ("traffic.sizes",))]


def _of_sizes(of: Mapping[str, Any]) -> str:
    sizes = of["traffic"].get("sizes")
    if isinstance(sizes, Mapping) and "fixed" in sizes:
        return f" ({sizes['fixed']})"
    return f" ({sizes})" if isinstance(sizes, str) else ""


def _cores(of: Mapping[str, Any]) -> list[Control]:
    machine = of["machine"]
    processors = _parts("processor", "machine.processor", machine.get("processor"))
    cores = int(machine["cores"])
    return [
        Control("processor", "Processor", "Machine", "choice", processors, 0, ("machine.processor",)),
        _numbers("cores", "Cores", "Machine", "machine.cores", [*range(1, 17), 20, 24, 32], cores),
        Control("nic", "NIC", "Machine", "choice", _parts("nic", "nic.model", of["nic"].get("model")), 0, _NIC),
    ]


def _rings(of: Mapping[str, Any]) -> list[Control]:
    nic, pool = of["nic"], of["mempool"]
    group = "Rings and pool"
    kinds = {"fifo": "freed longest ago first", "lifo": "freed last first"}
    own = str(pool["kind"])
    orders = tuple(
        Position("" if kind == own else kind, words, () if kind == own else (f"mempool.kind={kind}",))
        for kind, words in sorted(kinds.items(), key=lambda item: item[0] != own)
    )
    return [
        _numbers("rx", "Receive ring", group, "nic.rx_descriptors", _powers(64, 8192), nic["rx_descriptors"]),
        _numbers("tx", "Transmit ring", group, "nic.tx_descriptors", _powers(64, 8192), nic["tx_descriptors"]),
        _numbers("burst", "Burst", group, "nic.burst", _powers(1, 128), nic["burst"]),
        _numbers("pool", "Pool of mbufs", group, "mempool.size", _powers(1024, 262_144), pool["size"]),
        Control("order", "Mbufs given", group, "choice", orders, 0, ("mempool.kind",)),
    ]


def _caches(of: Mapping[str, Any]) -> list[Control]:
    llc = of["machine"]["llc"]
    ways, io_ways = int(llc["ways"]), units.ways(llc["io_ways"])
    core_ways = ways if llc.get("core_ways") is None else units.ways(llc["core_ways"])
    group = "Cache and memory"
    io = _numbers(
        *("ddio", "DDIO: LLC ways of devices", group, "machine.llc.io_ways", range(ways + 1), io_ways),
        lambda n: f"{n:g} of {ways}" if n else "0 (DDIO off)",
    )
    cores = _numbers(
        *("core_ways", "LLC ways of cores", group, "machine.llc.core_ways", range(1, ways + 1), core_ways),
        lambda n: f"{n:g} of {ways}",
    )
    iommu = of["machine"].get("iommu")
    pages = [Position("", "off" if iommu is None else f"as in the scenario ({iommu.get('mode')}, {iommu.get('page')})")]
    if iommu is not None:
        pages.append(Position("off", "off", ("machine.iommu.mode=off",)))
    pages += [Position(p, f"on, pages of {p}", (f'machine.iommu.page="{p}"',)) for p in ("4 KiB", "2 MiB", "1 GiB")]
    return [io, cores, Control("iommu", "IOMMU", group, "choice", tuple(pages), 0, ("machine.iommu.page",))]


def _techniques(of: Mapping[str, Any], taken: set[str]) -> list[Control]:
    """Techniques of the advice that no other control is: a short ring is a position of a slider."""
    fit, _ = techniques.fitting(of)
    return [
        Control(
            name=each.name,
            label=each.title[:1].upper() + each.title[1:],
            group="Techniques",
            kind="switch",
            positions=(Position("", "off"), Position(ON, "on")),
            own=0,
            detail=f"{techniques.WHO[each.kind]}{_cost(each)}",
        )
        for each in fit
        if not all(override.partition("=")[0] in taken for override in each.overrides)
    ]


def _cost(found: techniques.Technique) -> str:
    """What it takes, where it takes something that is counted."""
    return "" if found.cost == techniques.Cost() else f"; costs {found.cost.words}"


def _numbers(
    name: str,
    label: str,
    group: str,
    path: str,
    steps: Iterable[float],
    own: float | None,
    say: Any = q.count,
    said: str = "",
) -> Control:
    """A slider over numbers, in which the scenario's own stands at its place, or first where it is no number."""
    found = sorted({float(each) for each in steps} | ({float(own)} if own is not None else set()))
    positions = [
        Position("", say(n)) if own is not None and n == own else Position(f"{n:g}", say(n), (f"{path}={n:g}",))
        for n in found
    ]
    if own is None:
        positions.insert(0, Position("", f"as in the scenario ({said})" if said else "as in the scenario"))
    at = next(place for place, each in enumerate(positions) if not each.value)
    return Control(name, label, group, "slider", tuple(positions), at, (path,))


def _parts(kind: str, path: str, own: object) -> tuple[Position, ...]:
    """Shipped parts by name; the scenario's own comes first."""
    first = Position("", f"{own or 'as in the scenario'}")
    names = [name for of, name, _ in _wirespeed.presets() if of == kind and name != own]
    return (first, *(Position(name, name, (f"{path}={name}",)) for name in names))


def _powers(least: int, most: int) -> Sequence[int]:
    return [1 << bit for bit in range(least.bit_length() - 1, most.bit_length())]


_RATES: Final = ("rate", "packet_rate", "speed")
_FRAMES: Final = (64, 128, 256, 512, 1024, 1518)
_NIC: Final = ("nic.model",)
