"""What may be sized: dimensions of a machine, the values that are tried, and who sets each where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from wirespeed import _wirespeed, units
from wirespeed.errors import InputError, nearest
from wirespeed.tune import knobs

Resolved = Mapping[str, Any]
Machine = Mapping[str, int]
"""A value of each dimension that the machine has, by its name."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One number of a machine: the setting that it is, and who sets it on a server."""

    name: str
    path: str
    title: str
    who: str
    where: str


@dataclass(frozen=True, slots=True)
class Space:
    """The values of each dimension that are tried, and the machine as it is."""

    now: Machine
    values: Mapping[str, tuple[int, ...]]
    """Those that are tried, from small to large; one value is fixed."""
    given: frozenset[str]
    """Dimensions whose values were said, and not chosen here."""

    def allows(self, machine: Machine) -> bool:
        """Whether a machine has values that were said, where any were."""
        return all(machine[name] in self.values[name] for name in self.given)

    @property
    def start(self) -> dict[str, int]:
        """The machine as it is, with the nearest values that are allowed."""
        return {name: _near(self.values[name], now) if name in self.given else now for name, now in self.now.items()}


def _near(values: tuple[int, ...], now: int) -> int:
    return min(values, key=lambda each: abs(each - now))


DIMENSIONS: Final = (
    Dimension(
        "cores",
        "machine.cores",
        "cores",
        "program and kernel",
        "DPDK: -l CORES and a queue for each; kernel command line: isolcpus=, nohz_full=, rcu_nocbs= of these cores",
    ),
    Dimension(
        "receivers",
        "pipeline.rx_cores",
        "receiving cores",
        "program",
        "how many threads poll the port, and a queue for each",
    ),
    Dimension(
        "queues",
        "nic.queues_per_core",
        "queues a core",
        "program",
        "rte_eth_dev_configure: nb_rx_queue; testpmd --rxq; l3fwd --config",
    ),
    Dimension(
        "rings",
        "nic.rx_descriptors",
        "receive descriptors a queue",
        "program",
        "rte_eth_rx_queue_setup: nb_rx_desc; testpmd --rxd; Open vSwitch options:n_rxq_desc; VPP num-rx-desc",
    ),
    Dimension(
        "pool",
        "mempool.size",
        "mbufs",
        "program and kernel",
        "rte_pktmbuf_pool_create: n; testpmd --total-num-mbufs; VPP buffers-per-numa; hugepages= for their memory",
    ),
    Dimension(
        "burst",
        "nic.burst",
        "packets of a burst",
        "program",
        "rte_eth_rx_burst: nb_pkts; l3fwd MAX_PKT_BURST; testpmd --burst",
    ),
    Dimension(
        "io_ways",
        "machine.llc.io_ways",
        "LLC ways for devices",
        "system",
        "Intel: register 0xC8B (wirespeedd sets it)",
    ),
    Dimension(
        "core_ways",
        "machine.llc.core_ways",
        "LLC ways for cores",
        "system",
        "resctrl's schemata, or pqos -e (wirespeedd sets it)",
    ),
)
BY_NAME: Final = {each.name: each for each in DIMENSIONS}
# Searched where nobody says otherwise; the others stay as they are.
_SEARCHED: Final = ("cores", "receivers", "queues", "rings", "burst", "io_ways")
# The simulator's own most (`machine.cores`), and how far is searched where nobody knows how many cores a processor has.
_MOST_CORES: Final = 64
_SOME_CORES: Final = 16
_MORE_RECEIVERS: Final = 3
_RINGS: Final = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_BURSTS: Final = (8, 16, 32, 64, 128)
_QUEUES: Final = (1, 2, 4)
_IO_WAYS: Final = (1, 2, 4, 6, 8)
_CORES_OF: Final = re.compile(r"\b(\d+)(?: [\w-]+)? cores\b")


def has(of: Resolved, name: str) -> bool:
    """Whether a scenario has a dimension: receiving cores are of a pipeline; a policy sets the ways itself."""
    if name == "receivers":
        return bool(of.get("pipeline"))
    return not (name in ("io_ways", "core_ways") and of.get("policy"))


def value(of: Resolved, name: str) -> int:
    """What a resolved scenario has. Cores without ways of their own may fill all."""
    found: Any = of
    for part in BY_NAME[name].path.split("."):
        found = found.get(part, {})
    if name in ("io_ways", "core_ways"):
        return int(of["machine"]["llc"]["ways"]) if found == {} else units.ways(found)
    if found == {}:
        return 1  # queues of a core, which only stand there where there are several
    return int(found)


def machine(of: Resolved) -> dict[str, int]:
    """All dimensions that a resolved scenario has."""
    return {each.name: value(of, each.name) for each in DIMENSIONS if has(of, each.name)}


def processor_cores(of: Resolved) -> int | None:
    """How many cores its processor has, where it is a shipped one that says so."""
    name = of["machine"].get("processor")
    about = next((text for kind, each, text in _wirespeed.presets() if kind == "processor" and each == name), "")
    found = _CORES_OF.search(about)
    return None if found is None else min(int(found[1]), _MOST_CORES)


def space(of: Resolved, vary: Iterable[str] | Mapping[str, object], fix: Iterable[str], faults: list[str]) -> Space:
    """The values to try. What is wrong with `vary` and `fix` is added to `faults`."""
    now = machine(of)
    said: dict[str, tuple[int, ...]] = {}
    for option, text in [("--vary", each) for each in _texts(vary)] + [("--fix", each) for each in fix]:
        try:
            name, given = _parsed(option, text, now)
            if name in said:
                raise InputError(f"{option} {name}: is given twice; put all its values into one --vary")
            said[name] = given
        except InputError as e:
            faults.append(str(e))
    values = {name: said.get(name) or _default(of, name, now[name]) for name in now}
    return Space(now, values, frozenset(said))


def _texts(vary: Iterable[str] | Mapping[str, object]) -> list[str]:
    if not isinstance(vary, Mapping):
        return list(vary)
    return [f"{k}={v if isinstance(v, str) else ','.join(map(str, _several(v)))}" for k, v in vary.items()]


def _several(given: object) -> Iterable[object]:
    return given if isinstance(given, Iterable) else (given,)


def _parsed(option: str, text: str, now: Machine) -> tuple[str, tuple[int, ...]]:
    """A dimension by its name or its path, and values. Raises InputError."""
    spelled, equals, given = (part.strip() for part in text.partition("="))
    name = next((each.name for each in DIMENSIONS if spelled in (each.name, each.path)), "")
    if name not in now:
        why = " (this machine has none)" if name else nearest(spelled, [*BY_NAME])
        raise InputError(f"{option} {spelled}: is no dimension{why}; allowed are {', '.join(now)}")
    if option == "--fix" and not equals:
        return name, (now[name],)
    if not given:
        example = "cores=1..16" if option == "--vary" else "rings=1024"
        raise InputError(f"{option} {spelled}: there are no values; give them as in {option} {example}")
    values = knobs.parse(f"{name}={given}", option).values
    wrong = [each for each in values if not isinstance(each, int) or isinstance(each, bool) or each < 1]
    if wrong:
        raise InputError(f"{option} {spelled}: {wrong[0]!r} is no whole number above 0")
    if option == "--fix" and len(values) > 1:
        raise InputError(f"{option} {text}: fixes one value; --vary {text} tries several")
    return name, tuple(int(str(each)) for each in values)


def _default(of: Resolved, name: str, now: int) -> tuple[int, ...]:
    if name not in _SEARCHED:
        return (now,)
    if name == "cores":
        least = 1 + (int(of["pipeline"]["rx_cores"]) if of.get("pipeline") else 0)
        return tuple(range(least, max(processor_cores(of) or _SOME_CORES, now) + 1))
    ways = int(of["machine"]["llc"]["ways"])
    usual = {
        "receivers": range(now, now + _MORE_RECEIVERS + 1),
        "queues": _QUEUES,
        "rings": [each for each in _RINGS if each >= int(of["nic"]["burst"])],
        "burst": [each for each in _BURSTS if each <= int(of["nic"]["rx_descriptors"])],
        "io_ways": [each for each in _IO_WAYS if each < ways],
    }[name]
    return tuple(sorted({*usual, now}))


def rule(of: Resolved, chosen: Machine) -> int:
    """Mbufs of a pool that such a machine never finds empty: what rings, bursts, queues and caches hold, rounded up."""
    nic, pipeline, cores = of["nic"], of.get("pipeline") or {}, chosen["cores"]
    return _wirespeed.pool_of(
        cores=cores,
        receiving=min(chosen.get("receivers", cores), cores),
        ports=int(nic["ports"]),
        rx_descriptors=chosen["rings"] * chosen["queues"],
        tx_descriptors=int(nic["tx_descriptors"]),
        burst=chosen["burst"],
        cache=int(of["mempool"]["cache"]),
        queue=int(pipeline.get("queue", 0)),
    )


def cost(chosen: Machine, now: Machine) -> tuple[int, int, int, int]:
    """Cheaper machines are less: by cores, mbufs, descriptors, and how many settings change."""
    rings = chosen.get("receivers", chosen["cores"]) * chosen["queues"] * chosen["rings"]
    return chosen["cores"], chosen["pool"], rings, sum(chosen[name] != now[name] for name in now)
