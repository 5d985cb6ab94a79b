"""A scenario as the configuration of a real program: what it can set, in bounds, and what it cannot as comments.

Sources: documentation and sources of VPP 26.06, DPDK 26.07 (testpmd, l3fwd), Open vSwitch 4.0, Suricata 8.0 and grout
0.17. Cores and PCI addresses are the reader's own: a scenario has neither, so `Deployment` gives them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from wirespeed import _wirespeed, scenarios, units
from wirespeed.api import Scenario
from wirespeed.errors import InputError, nearest
from wirespeed.operators import catalogue
from wirespeed.operators.catalogue import RingLimits

_DEVICE: Final = re.compile(r"[\w.:,=/-]{1,128}")
_CACHE: Final = 512
"""RTE_MEMPOOL_CACHE_MAX_SIZE."""
_PAGE: Final = 2 << 20


@dataclass(frozen=True, slots=True)
class Deployment:
    """Where a program runs: PCI addresses of its ports, and the first of its cores."""

    devices: tuple[str, ...] = ()
    first_core: int = 1

    def __post_init__(self) -> None:
        """Raises InputError for what is no address or no core."""
        for device in self.devices:
            if _DEVICE.fullmatch(device) is None:
                raise InputError(f"--device {device}: must be a PCI address such as 0000:3b:00.0, or a device's name")
        if not 0 <= self.first_core < 4096:
            raise InputError(f"--first-core {self.first_core}: must be 0 to 4095")


@dataclass(slots=True)
class Plan:
    """What a scenario sets of a program, and what has to be said about it."""

    title: str
    cores: int
    ports: int
    queues_per_core: int
    rx: int
    tx: int
    burst: int
    pool: int
    cache: int
    element: int
    program: str
    """The shipped program, or the function."""
    driver: str
    devices: list[str]
    core_list: list[int]
    is_lifo: bool
    said: list[str] = field(default_factory=list)

    @property
    def queues(self) -> int:
        """RX queues of each port: those of all cores, shared out over ports."""
        return -(-self.cores * self.queues_per_core // self.ports)

    def say(self, text: str) -> None:
        """Adds a comment."""
        self.said.append(text)

    def bound(self, name: str, value: int, least: int, most: int) -> int:
        """`value` within bounds; what is cut is said."""
        found = min(max(value, least), most)
        if found != value:
            self.say(f"{name}: the scenario has {value}; allowed are {least} to {most}, and {found} is written.")
        return found

    def ring(self, name: str, value: int, limits: RingLimits) -> int:
        """A ring that the driver takes; another one than the scenario's is said."""
        found = limits.nearest(value)
        if found != value:
            self.say(f"{name}: the scenario has {value}; allowed are {limits.words}, and {found} is written.")
        return found

    @property
    def limits(self) -> RingLimits:
        """What rings the driver takes."""
        return catalogue.LIMITS.get(self.driver, catalogue.ANY_RING)


def judge(program: str, option: str) -> None:
    """Raises InputError for a program that is none of `PROGRAMS`, which `option` names."""
    if program not in PROGRAMS:
        raise InputError(f"{option} {program}: must be one of {', '.join(PROGRAMS)}{nearest(program, PROGRAMS)}")


def emit(scenario: Scenario, program: str, deployment: Deployment | None = None) -> str:
    """The configuration of `program` (one of `PROGRAMS`) that a scenario means.

    Comments say bounds, what needs a restart, and what the program cannot set. Raises InputError for a program that is
    not known, and for a bad scenario.
    """
    judge(program, "--for")
    plan = _plan(scenario, deployment or Deployment())
    body = PROGRAMS[program](plan)
    head = [
        f"{program}, as the scenario{plan.title and f' ({plan.title})'} means it. Made by `wirespeed emit`.",
        *plan.said,
    ]
    return "".join(f"# {' '.join(line.split())}\n" for line in head) + body


def _plan(scenario: Scenario, deployment: Deployment) -> Plan:
    found = scenarios.find(scenario)
    resolved = tomllib.loads(_wirespeed.Scenario(found.text, found.origin, list(found.overrides)).resolved)
    given = _given(found)
    machine, nic, pool = resolved["machine"], resolved["nic"], resolved["mempool"]
    ports, pipeline = int(nic["ports"]), resolved.get("pipeline")
    cores = int(pipeline["rx_cores"] if pipeline else machine["cores"])
    program = _name(given, "function", "program") or str(resolved["function"].get("kind", "forward"))
    plan = Plan(
        title=str(resolved.get("name") or ""),
        cores=cores,
        ports=ports,
        queues_per_core=int(nic.get("queues_per_core", 1)),
        rx=int(nic["rx_descriptors"]),
        tx=int(nic["tx_descriptors"]),
        burst=int(nic["burst"]),
        pool=int(pool["size"]),
        cache=int(pool["cache"]),
        element=units.size("mempool.element", str(pool.get("element") or "2368 B")),
        program=program,
        driver=_name(given, "nic", "driver"),
        devices=_devices(deployment, ports),
        core_list=list(range(deployment.first_core, deployment.first_core + cores + 1)),
        is_lifo=pool.get("kind") == "lifo",
    )
    if pipeline:
        plan.say(
            f"Pipeline: cores that receive are meant, {cores}; {machine['cores'] - cores} more work behind queues."
        )
    if machine["llc"].get("core_ways") is not None or machine.get("clos"):
        plan.say("Ways of the LLC: the scenario sets them; here resctrl or pqos does.")
    if not deployment.devices:
        plan.say("PCI addresses are examples: put in those of your ports (--device).")
    plan.say(f"Cores {_ranges(plan.core_list)} are examples, too (--first-core): take those of the NIC's NUMA node.")
    _say_queues(plan)
    return plan


def _say_queues(plan: Plan) -> None:
    wanted, made = plan.cores * plan.queues_per_core, plan.queues * plan.ports
    if made != wanted:
        plan.say(
            f"Queues: the scenario has {wanted} RX queues; {plan.ports} ports of {plan.queues} have {made}, since each "
            "port has as many."
        )


def _given(found: scenarios.Scenario) -> dict[str, Any]:
    """What a scenario says itself; names of parts are not in one with everything filled in."""
    given: dict[str, Any] = tomllib.loads(found.text)
    for override in found.overrides:
        path, _, value = override.partition("=")
        table, _, key = path.strip().partition(".")
        if key in ("program", "driver") and isinstance(given.setdefault(table, {}), dict):
            given[table][key] = value.strip().strip('"')
    return given


def _name(given: Mapping[str, Any], table: str, key: str) -> str:
    """The name of a shipped part: `driver = "ice"` or `driver.preset = "ice"`."""
    part = given.get(table, {})
    value = part.get(key, "") if isinstance(part, dict) else ""
    value = value.get("preset", "") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def _devices(deployment: Deployment, ports: int) -> list[str]:
    if deployment.devices and len(deployment.devices) != ports:
        raise InputError(f"--device is given {len(deployment.devices)} times, and the scenario has {ports} ports")
    made = [f"0000:{0x3B + port // 8:02x}:00.{port % 8}" for port in range(ports)]
    return list(deployment.devices) or made


def _ranges(cores: list[int]) -> str:
    """Cores that follow each other, as a list.

    >>> _ranges([1, 2, 3]), _ranges([4])
    ('1-3', '4')
    """
    return str(cores[0]) if len(cores) == 1 else f"{cores[0]}-{cores[-1]}"


def _say_pool(plan: Plan, tx_queues: int, extra: int) -> None:
    """Whether the pool fills all rings, and what memory it takes."""
    least = plan.ports * (plan.queues * plan.rx + tx_queues * plan.tx) + extra
    if plan.pool < least:
        plan.say(
            f"Pool: CAUTION, {plan.pool} mbufs; rings and caches may hold {least}. Below that packets find no mbuf."
        )
    pages = -(-plan.pool * plan.element // _PAGE)
    plan.say(f"Huge pages: {pages} of 2 MiB hold the pool of {plan.pool} mbufs.")


def _cannot(plan: Plan, what: str, has: object, why: str) -> None:
    caution = (
        " CAUTION: another program takes other cycles; rates and sizes of the scenario are not its."
        if what == "Path"
        else ""
    )
    plan.say(f"{what}: the scenario has {has}; {why}.{caution}")


def _vpp(plan: Plan) -> str:
    rx, tx = plan.ring("num-rx-desc", plan.rx, plan.limits), plan.ring("num-tx-desc", plan.tx, plan.limits)
    plan.say(f"Rings: {plan.limits.words}. VPP cuts a TX ring that is too long, and refuses such an RX ring.")
    plan.say("All of this needs a restart of VPP; only rx-placement can be set while it runs.")
    plan.say("num-tx-queues is the number of threads, the main one among them, unless it is set.")
    if plan.burst != 256:
        _cannot(plan, "Burst", plan.burst, "a vector of VPP is 256, fixed when it is built")
    if plan.cache != _CACHE:
        _cannot(plan, "Cache of a core", plan.cache, "VPP keeps up to 512 a thread, and no setting changes that")
    if not plan.program.startswith("vpp"):
        _cannot(plan, "Path", plan.program, "routes, cross connects and patches are set by vppctl")
    threads = plan.cores + 1
    _say_pool(plan, threads, (512 + 256) * threads)
    main, *workers = plan.core_list
    settings = f"num-rx-queues {plan.queues}\n    num-rx-desc {rx}\n    num-tx-desc {tx}"
    devices = "".join(f"  dev {device}\n" for device in plan.devices)
    return (
        f"cpu {{\n  main-core {main}\n  corelist-workers {_ranges(workers)}\n}}\n"
        f"buffers {{\n  buffers-per-numa {plan.pool} # rounded up to whole pages\n}}\n"
        f"dpdk {{\n  dev default {{\n    {settings}\n  }}\n{devices}}}\n"
    )


_MODES: Final[Mapping[str, str]] = {"testpmd-io": "io", "testpmd-mac": "mac"}


def _testpmd(plan: Plan) -> str:
    rx, tx = plan.ring("--rxd", plan.rx, plan.limits), plan.ring("--txd", plan.tx, plan.limits)
    burst = plan.bound("--burst", plan.burst, 1, 512)
    cache = plan.bound("--mbcache", plan.cache, 0, _CACHE)
    pool = plan.bound("--total-num-mbufs", plan.pool, 1025, 1 << 24)
    plan.say(f"Rings: {plan.limits.words}. Burst: 1 to 512. Cache: 0 to 512, and 1.5 of it no more than the pool.")
    plan.say("Rings and burst can be set at the prompt, with ports stopped; cores, pool and cache need a restart.")
    if plan.program not in _MODES:
        _cannot(plan, "What is done", plan.program, "testpmd forwards in mode mac at the nearest")
    _say_pool(plan, plan.queues, plan.cores * plan.cache * 3 // 2)
    options = [
        f"--nb-cores={plan.cores}",
        f"--rxq={plan.queues}",
        f"--txq={plan.queues}",
        f"--rxd={rx}",
        f"--txd={tx}",
        f"--burst={burst}",
        f"--mbcache={cache}",
        f"--total-num-mbufs={pool}",
        f"--forward-mode={_MODES.get(plan.program, 'mac')}",
        "--auto-start",
    ]
    return f"dpdk-testpmd -l {_ranges(plan.core_list)} {_eal(plan)} -- \\\n  {' '.join(options)}\n"


def _eal(plan: Plan) -> str:
    """Ports and the order of the pool, as DPDK's environment takes them."""
    order = ["--mbuf-pool-ops-name=stack"] if plan.is_lifo else []
    return " ".join([*(f"-a {device}" for device in plan.devices), *order])


def _l3fwd(plan: Plan) -> str:
    rx = plan.ring("--rx-queue-size", plan.rx, plan.limits)
    tx = plan.ring("--tx-queue-size", plan.tx, plan.limits)
    burst = plan.bound("--rx-burst", plan.burst, 1, 512)
    cache = plan.bound("--mbcache", plan.cache, 0, _CACHE)
    lcores = plan.core_list[1:]
    pairs = [(port, queue) for port in range(plan.ports) for queue in range(plan.queues)]
    tuples = ",".join(f"({port},{queue},{lcores[n % len(lcores)]})" for n, (port, queue) in enumerate(pairs))
    plan.say(f"Rings: {plan.limits.words}. Queues: up to 16 a core, 128 a port. All of it needs a restart.")
    plan.say("--rx-burst and --tx-burst are of DPDK 25.11; 24.11 to 25.07 have --burst, older ones 32, fixed.")
    plan.say("--mbcache is of 24.11, --rx-queue-size and --tx-queue-size of 22.03.")
    if plan.program != "l3fwd":
        _cannot(plan, "What is done", plan.program, "l3fwd routes by longest prefix match")
    made = plan.ports * (plan.queues * rx + plan.cores * (burst + tx)) + plan.cores * cache
    _cannot(plan, "Pool", plan.pool, f"l3fwd has no flag for it, and makes max(8192, {made}) mbufs itself")
    return (
        f"dpdk-l3fwd -l {_ranges(lcores)} {_eal(plan)} -- -p {(1 << plan.ports) - 1:#x} "
        f'--config="{tuples}" \\\n  --rx-queue-size {rx} --tx-queue-size {tx} --rx-burst {burst} --tx-burst {burst} '
        f"--mbcache {cache} --lookup lpm\n"
    )


def _ovs(plan: Plan) -> str:
    limits = RingLimits(plan.limits.least, min(plan.limits.most, 4096), 1, power=True)
    rx, tx = plan.ring("n_rxq_desc", plan.rx, limits), plan.ring("n_txq_desc", plan.tx, limits)
    plan.say(f"Rings: {limits.words}; OVS takes 2048 in place of any other number, and tells only its log.")
    plan.say("dpdk-init and per-port-memory need a restart of ovs-vswitchd; masks, queues and rings do not.")
    plan.say("TX queues are one more than polling threads, and cannot be set.")
    if plan.burst != 32:
        _cannot(plan, "Burst", plan.burst, "it is 32 in OVS, fixed when it is built")
    if plan.cache != _CACHE:
        _cannot(plan, "Cache of a core", plan.cache, "OVS has 512")
    made = plan.queues * rx + (plan.cores + 1) * tx + plan.queues * 32 + 16384
    _cannot(plan, "Pool", plan.pool, f"OVS makes its own, {made} mbufs a port with per-port-memory")
    if plan.program != "classify":
        _cannot(plan, "What is done", plan.program, "flows of OVS are set by ovs-ofctl")
    mask = sum(1 << core for core in plan.core_list[1:])
    lines = [
        "ovs-vsctl set Open_vSwitch . other_config:dpdk-init=true other_config:per-port-memory=true",
        f"ovs-vsctl set Open_vSwitch . other_config:pmd-cpu-mask={mask:#x}",
        "ovs-vsctl --may-exist add-br br0 -- set bridge br0 datapath_type=netdev",
    ]
    lines += [
        f"ovs-vsctl --may-exist add-port br0 p{port} -- set Interface p{port} type=dpdk "
        f"options:dpdk-devargs={device} options:n_rxq={plan.queues} options:n_rxq_desc={rx} options:n_txq_desc={tx}"
        for port, device in enumerate(plan.devices)
    ]
    return "\n".join(lines) + "\n"


def _divisor(most: int, of: int) -> int:
    """The largest divisor of a number that is no more than `most`.

    >>> _divisor(500, 4095), _divisor(512, 8191)
    (455, 1)
    """
    return next((each for each in range(max(1, min(most, of)), 0, -1) if of % each == 0), 1)


def _suricata(plan: Plan) -> str:
    rx, tx = plan.ring("rx-descriptors", plan.rx, plan.limits), plan.ring("tx-descriptors", plan.tx, plan.limits)
    size = max(plan.pool // plan.ports, 1)
    cache = _divisor(min(plan.cache, _CACHE, max(1, size * 2 // 3)), size)
    plan.say(
        f"Rings: {plan.limits.words}. mempool-cache-size: 1 to 512, a divisor of mempool-size. All needs a restart."
    )
    if size * plan.ports != plan.pool:
        plan.say(f"Pool: the scenario has {plan.pool}; {plan.ports} interfaces have {size} each.")
    if cache != plan.cache:
        plan.say(f"Cache: the scenario has {plan.cache}; {cache} is the largest divisor of {size} that is no more.")
    least = (1 << (rx + tx + 1 - 1).bit_length()) - 1
    plan.say(
        f"Suricata 8 shares mempool-size among queues, and refuses one below {least * plan.queues} here; 7 does not."
    )
    if plan.queues_per_core > 1:
        _cannot(plan, "Queues of a core", plan.queues_per_core, "a thread of Suricata polls one")
    if plan.burst != 32:
        _cannot(plan, "Burst", plan.burst, "it is 32 in Suricata, fixed when it is built")
    if plan.program != "inspect":
        _cannot(plan, "What is done", plan.program, "Suricata inspects by its rules")
    threads = -(-plan.cores // plan.ports)
    if threads * plan.ports != plan.cores:
        made = threads * plan.ports
        plan.say(f"Threads: the scenario has {plan.cores} cores; {plan.ports} interfaces of {threads} have {made}.")
    paired = plan.ports % 2 == 0
    lines = ["%YAML 1.1", "---", "dpdk:", "  eal-params:", "    proc-type: primary", "  interfaces:"]
    for port, device in enumerate(plan.devices):
        lines += [
            f'    - interface: "{device}"',
            f"      threads: {threads}",
            f"      rx-descriptors: {rx}",
            f"      tx-descriptors: {tx}",
            f"      mempool-size: {size}",
            f"      mempool-cache-size: {cache}",
            f"      copy-mode: {'ips' if paired else 'none'}",
            f"      copy-iface: {f'{chr(34)}{plan.devices[port ^ 1]}{chr(34)}' if paired else 'none'}",
        ]
    cores = _ranges(plan.core_list[1 : 1 + threads * plan.ports] or plan.core_list)
    lines += [
        "threading:",
        "  set-cpu-affinity: yes",
        "  cpu-affinity:",
        "    - worker-cpu-set:",
        f'        cpu: [ "{cores}" ]',
        '        mode: "exclusive"',
    ]
    return "\n".join(lines) + "\n"


def _grout(plan: Plan) -> str:
    ring = plan.ring("qsize", plan.rx, plan.limits)
    burst = plan.bound("rx-burst-max", plan.burst, 1, 256)
    plan.say(f"Rings: {plan.limits.words}. rx-burst-max: 1 to 256. None of it needs a restart.")
    if plan.tx != plan.rx:
        _cannot(plan, "TX ring", plan.tx, f"qsize is one number for RX and TX, {ring}")
    if plan.cache != _CACHE:
        _cannot(plan, "Cache of a core", plan.cache, "grout has up to 512")
    _cannot(plan, "Pool", plan.pool, "grout makes it of rings and queues itself")
    plan.say("TX queues follow the number of workers.")
    if plan.program != "l3fwd":
        _cannot(plan, "What is done", plan.program, "grout routes; addresses and routes are set by grcli")
    main, *workers = plan.core_list
    lines = [f"affinity cpus set control {main} datapath {_ranges(workers)}"]
    lines += [
        f"interface add port p{port} devargs {device} rxqs {plan.queues} qsize {ring}"
        for port, device in enumerate(plan.devices)
    ]
    return "\n".join([*lines, f"graph config set rx-burst-max {burst}"]) + "\n"


PROGRAMS: Final[Mapping[str, Callable[[Plan], str]]] = {
    "vpp": _vpp,
    "testpmd": _testpmd,
    "l3fwd": _l3fwd,
    "ovs": _ovs,
    "suricata": _suricata,
    "grout": _grout,
}
"""Programs whose configuration is written."""
