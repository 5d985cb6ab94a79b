"""Open vSwitch with DPDK as a target: a private switch of its own between two null devices.

Database, sockets and logs lie in a temporary folder, so a switch that runs on this machine is not touched; both daemons
are under a warden. Packets go from the first port to the second, and back, by one flow each; counted is what the
polling thread (PMD) has received, per CPU-second of it.

| setting | what it is |
|---|---|
| `nic.rx_descriptors` | `options:n_rxq_desc`; with a pool for each port also what sizes it |
| `mempool.per_port` | `other_config:per-port-memory`: false is one pool of 262144 mbufs for all |
| `mempool.mtu` | `mtu_request`, which sets how long an mbuf is |
| `ovs.emc_insert_inv_prob` | `other_config:emc-insert-inv-prob`; 0 turns the exact-match cache off |
| `ovs.tx_flush_interval` | `other_config:tx-flush-interval`, microseconds |

Left out: rings (null devices have none), several flows, several polling threads.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from wirespeed.errors import InputError, TargetError
from wirespeed.programs import hugepages
from wirespeed.programs.process import Process
from wirespeed.programs.testpmd import Sampling
from wirespeed.programs.windows import estimate
from wirespeed.tune.real import START, failed, fingerprint, processor, version_of
from wirespeed.tune.target import Measurement, Settings

OWN: Final[Mapping[str, object]] = {
    "nic.rx_descriptors": 2048,
    "mempool.per_port": False,
    "mempool.mtu": 1500,
    "ovs.emc_insert_inv_prob": 100,
    "ovs.tx_flush_interval": 0,
}
USUAL: Final[Mapping[str, str]] = {
    "nic.rx_descriptors": "512..4096*2",
    "mempool.per_port": "false,true",
    "ovs.emc_insert_inv_prob": "0,1,100",
    "ovs.tx_flush_interval": "0,50",
}
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "nic.rx_descriptors": (64, 4096),
    "mempool.mtu": (68, 9702),
    "ovs.emc_insert_inv_prob": (0, 1 << 31),
    "ovs.tx_flush_interval": (0, 1_000_000),
}
_DAEMONS: Final = ("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk", "ovs-vswitchd-dpdk", "ovs-vswitchd")
_SCHEMAS: Final = ("/usr/share/openvswitch/vswitch.ovsschema", "/usr/local/share/openvswitch/vswitch.ovsschema")
# 262144 mbufs of 2 to 3 KiB.
_MEGABYTES: Final = 1024
_WITHIN_S: Final = 20.0
_RECEIVED: Final = re.compile(r"pmd thread.*?packets received: (\d+)", re.DOTALL)


class Switch:
    """Open vSwitch."""

    def __init__(self, size: int, cpu: int | None, sampling: Sampling | None = None) -> None:
        if not 64 <= size <= 1920:
            raise InputError(f"--size {size}: must be from 64 to 1920 bytes")
        usable = sorted(os.sched_getaffinity(0))
        if cpu is not None and cpu not in usable:
            raise InputError(f"--cpu {cpu}: must be one of {', '.join(map(str, usable))}")
        self._size, self._core = size, usable[-1] if cpu is None else cpu
        self._main = usable[0]
        self._sampling = sampling or Sampling(window_s=0.1)
        self.title = f"Open vSwitch with DPDK, {size} B between null devices"

    @property
    def identity(self) -> str:
        """The set-up, the switch's version, the processor."""
        return fingerprint("ovs-dpdk", self._size, self._core, version_of([_daemon(), "--version"]), processor())

    def check(self, settings: Settings) -> str | None:
        """What the switch would refuse, or quietly not take."""
        for path, value in settings.items():
            if path == START:
                continue
            if path not in OWN:
                return f"{path}: is no setting of Open vSwitch here; there are {', '.join(OWN)}"
            if path == "mempool.per_port":
                if not isinstance(value, bool):
                    return f"{path} = {value}: must be true or false"
                continue
            low, high = _RANGES[path]
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                return f"{path} = {value}: must be a whole number from {low} to {high}"
            if path == "nic.rx_descriptors" and value & (value - 1):
                return f"{path} = {value}: must be a power of two: the switch rounds others up"
        return None

    def evaluate(self, settings: Settings, is_stopped: Callable[[], bool]) -> Measurement:
        """One start."""
        begun = time.monotonic()
        try:
            values = self._measure({**OWN, **settings}, is_stopped)
        except TargetError as e:
            return failed(e, begun)
        return Measurement(values, time.monotonic() - begun)

    def deploy(self, settings: Settings) -> str:
        """The commands that set a switch so."""
        whole = {**OWN, **settings}
        config = " ".join(["ovs-vsctl set Open_vSwitch .", *_config(whole)])
        ports = [f"ovs-vsctl set interface PORT {' '.join(_interface(whole))}"]
        return " && ".join([config, *ports])

    def defaults(self) -> Settings:
        """What a switch has."""
        return OWN

    @contextlib.contextmanager
    def prepared(self) -> Iterator[list[str]]:
        """With hugepages, which the switch cannot do without."""
        _daemon()
        with hugepages.at_least((_MEGABYTES + 64) << 20) as huge:
            if not huge:
                raise TargetError(
                    f"ovs-dpdk: needs {_MEGABYTES + 64} MB of hugepages; as root: "
                    f"echo 544 > {hugepages.ROOT}/nr_hugepages"
                )
            yield [
                f"packets received per CPU-second of the polling thread (schedstat) on core {self._core}, upper "
                f"quartile of windows of {self._sampling.window_s * 1e3:.0f} ms"
            ]

    def _measure(self, whole: Mapping[str, object], is_stopped: Callable[[], bool]) -> dict[str, float]:
        with tempfile.TemporaryDirectory(prefix="wirespeed-ovs-") as name, self._running(Path(name), whole) as switch:
            folder = Path(name)
            thread = switch.polling_thread("^pmd-")
            switch.sleep(0.3, is_stopped)
            rates: list[float] = []
            while True:
                packets, used = self._received(folder, switch), switch.cpu_ns(thread)
                switch.sleep(self._sampling.window_s, is_stopped)
                packets, used = self._received(folder, switch) - packets, switch.cpu_ns(thread) - used
                if packets == 0:
                    raise switch.hung("forwards nothing", self._sampling.window_s)
                if used > 0:
                    rates.append(packets / (used / 1e9))
                if len(rates) >= self._sampling.least:
                    found = estimate(rates)
                    if found.is_within <= self._sampling.within or len(rates) >= self._sampling.most:
                        break
        # Null devices take whatever they are given: what is received gets through.
        values = {"cpu_mpps": found.value / 1e6, "loss": 0.0, "windows": float(found.windows)}
        return values | ({"half_width": found.half_width / 1e6} if found.half_width is not None else {})

    def _received(self, folder: Path, switch: Process) -> int:
        text = _run(["ovs-appctl", "-t", str(folder / "v.ctl"), "dpif-netdev/pmd-stats-show"], folder, switch)
        found = _RECEIVED.search(text)
        if found is None:
            raise switch.hung("tells no polling thread", _WITHIN_S)
        return int(found[1])

    @contextlib.contextmanager
    def _running(self, folder: Path, whole: Mapping[str, object]) -> Iterator[Process]:
        schema = next((each for each in _SCHEMAS if Path(each).exists()), None)
        if schema is None:
            raise TargetError(f"ovs-dpdk: there is no {_SCHEMAS[0]}; install openvswitch-common")
        daemon = _daemon()
        _run(["ovsdb-tool", "create", str(folder / "conf.db"), schema], folder)
        env = _env(folder)
        database = f"unix:{folder / 'db.sock'}"
        server = ["ovsdb-server", str(folder / "conf.db"), f"--remote=p{database}", f"--unixctl={folder / 'db.ctl'}"]
        control = ["ovs-vsctl", f"--db={database}", "--timeout=15"]
        with Process(server, env) as keeper:
            ends = time.monotonic() + _WITHIN_S
            while not (folder / "db.sock").exists():
                if time.monotonic() >= ends:
                    raise keeper.hung("has made no socket", _WITHIN_S)
                keeper.sleep(0.02)
            _run([*control, "--no-wait", "init"], folder, keeper)
            prefix = f"wirespeed-ovs-{os.getpid()}"
            dpdk = [
                "other_config:dpdk-init=true",
                f"other_config:dpdk-extra=--in-memory --no-pci --file-prefix={prefix}",
                f"other_config:dpdk-socket-mem={_MEGABYTES}",
                f"other_config:pmd-cpu-mask={1 << self._core:#x}",
                f"other_config:dpdk-lcore-mask={1 << self._main:#x}",
            ]
            _run([*control, "--no-wait", "set", "Open_vSwitch", ".", *dpdk, *_config(whole)], folder, keeper)
            with Process([daemon, database, f"--unixctl={folder / 'v.ctl'}", "-vconsole:warn"], env) as switch:
                try:
                    bridge = ["datapath_type=netdev", "fail_mode=secure"]
                    _run([*control, "add-br", "br0", "--", "set", "bridge", "br0", *bridge], folder, switch)
                    for port in (0, 1):
                        made = [
                            "type=dpdk",
                            f"options:dpdk-devargs=net_null{port},size={self._size},copy=1",
                            f"ofport_request={port + 1}",
                            *_interface(whole),
                        ]
                        name = f"p{port}"
                        _run([*control, "add-port", "br0", name, "--", "set", "interface", name, *made], folder, switch)
                    for here, there in ((1, 2), (2, 1)):
                        _run(["ovs-ofctl", "add-flow", "br0", f"in_port={here},actions=output:{there}"], folder, switch)
                    yield switch
                finally:
                    shutil.rmtree(Path("/var/run/dpdk") / prefix, ignore_errors=True)


def _daemon() -> str:
    found = next((path for each in _DAEMONS if (path := shutil.which(each)) is not None), None)
    missing = next((each for each in ("ovsdb-server", "ovs-vsctl", "ovs-ofctl") if shutil.which(each) is None), None)
    if found is None or missing is not None:
        raise TargetError(
            f"ovs-dpdk: {missing or 'ovs-vswitchd'} is not installed; on Debian and Ubuntu: "
            "apt-get install --no-install-recommends openvswitch-switch-dpdk librte-net-null23"
        )
    return found


def _config(whole: Mapping[str, object]) -> list[str]:
    return [
        f"other_config:per-port-memory={str(whole['mempool.per_port']).lower()}",
        f"other_config:emc-insert-inv-prob={whole['ovs.emc_insert_inv_prob']}",
        f"other_config:tx-flush-interval={whole['ovs.tx_flush_interval']}",
    ]


def _interface(whole: Mapping[str, object]) -> list[str]:
    return [f"options:n_rxq_desc={whole['nic.rx_descriptors']}", f"mtu_request={whole['mempool.mtu']}"]


def _env(folder: Path) -> dict[str, str]:
    return {**os.environ, "OVS_RUNDIR": str(folder), "OVS_LOGDIR": str(folder), "OVS_DBDIR": str(folder)}


def _run(command: Sequence[str], folder: Path, of: Process | None = None) -> str:
    """Runs a tool of the switch. Raises TargetError where it fails, or does not end."""
    try:
        found = subprocess.run(
            command,
            env=_env(folder),
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        if of is not None:
            of.check()
            raise of.hung(f"does not answer {command[0]}", _WITHIN_S) from None
        raise TargetError(f"ovs-dpdk: {command[0]} does not end") from None
    except OSError as e:
        raise TargetError(f"ovs-dpdk: {command[0]}: {e.strerror}; install openvswitch-switch-dpdk") from None
    if found.returncode != 0:
        if of is not None:
            of.check()
        raise TargetError(f"ovs-dpdk: {command[0]} fails: {(found.stderr or found.stdout).strip()[:300]}", refused=True)
    return found.stdout
