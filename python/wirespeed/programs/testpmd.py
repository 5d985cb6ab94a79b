"""`dpdk-testpmd` with virtual devices: settings in, packets per CPU-second of its polling thread out.

One core forwards between devices that make packets from nothing, so neither a NIC nor a second core is needed:

- `memif`: null → memif ⇄ memif → null, and back. A packet is copied four times: into an mbuf, into a slot of the
  shared ring, into an mbuf behind it, and out. `nic.rx_descriptors` is the length of the rings.
- `null`: null ⇄ null. A packet is copied into an mbuf and out. There is no ring.

Windows of forwarding are counted by testpmd itself between `start` and `stop`, so packets, drops and CPU time are of
the same window to the packet. Hugepages are used where they are free or can be had, else `--no-huge`.

Left out: several forwarding cores. Two polling threads on two cores that others use too give numbers without meaning.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from wirespeed.errors import InputError, TargetError
from wirespeed.programs import hugepages
from wirespeed.programs.process import Process
from wirespeed.programs.windows import Estimate, estimate

PROGRAM: Final = "dpdk-testpmd"
DESCRIPTORS: Final = "nic.rx_descriptors"
BURST: Final = "nic.burst"
BUFFERS: Final = "mempool.size"
CACHE: Final = "mempool.cache"
KIND: Final = "mempool.kind"
KNOBS: Final = (DESCRIPTORS, BURST, BUFFERS, CACHE, KIND)

Devices = Literal["memif", "null"]
Defaults = Literal["testpmd", "paper"]

# 5GC2ache's "default" as far as the paper has it: 4096 descriptors and a pool of 262140 mbufs. That no mbufs are cached
# per core, that they come first in first out, and the burst are assumed: the paper does not say. DPDK caches mbufs by
# default. On a Zen 5 guest a cache of 250 alone takes 2.7 M packets per CPU-second to 9.1 M, and tuning ends at 10.2 M.
PAPER: Final[Mapping[str, object]] = {DESCRIPTORS: 4096, BUFFERS: 262140, CACHE: 0, KIND: "fifo", BURST: 32}
# What testpmd and the memif driver of DPDK 22.11 take when nothing is said. The pool's size follows from the cores
# (`rte_eth_dev` maximum of ports times descriptors, bursts and caches) and is printed by testpmd at its start.
OWN: Final[Mapping[str, object]] = {DESCRIPTORS: 1024, CACHE: 250, KIND: "fifo", BURST: 32}

# Bytes a packet: mbuf header, testpmd's data room (2048 and 128 of headroom), object header and trailer.
_MBUF_BYTES: Final = 128 + 2048 + 128 + 64
# (RX 2048 + TX 2048 descriptors + burst 512) x 32 ports + caches: testpmd's own pool, at most.
_OWN_BUFFERS: Final = 171_456
_SPARE_BYTES: Final = 48 << 20
# A memif ring has at most 2^14 slots; of its slots testpmd fills 2048 bytes.
_SHORTEST, _LONGEST_RING = 32, 1 << 14
_MOST_BURST: Final = 512
_MOST_CACHE: Final = 512
_SLOT_BYTES: Final = 2048

_PROMPT: Final = "testpmd> "
_STOPPED: Final = rf"(?s)\A.*?Accumulated forward statistics.*?{_PROMPT}"
_COUNTS: Final = re.compile(
    r"Forward statistics for port (\d+) .*?RX-packets: (\d+).*?TX-packets: (\d+)\s+TX-dropped: (\d+)", re.DOTALL
)
_STARTS_WITHIN_S: Final = 30.0
_ANSWERS_WITHIN_S: Final = 20.0

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Sampling:
    """How long to look: windows until the half-width is small enough, or there are too many."""

    window_s: float = 0.05
    least: int = 11
    most: int = 30
    within: float = 0.02
    """The half-width, as a share of the value, at which no more windows are needed."""
    warmup_s: float = 0.12


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What a start of testpmd came to."""

    rate: Estimate
    """Packets per CPU-second of the polling thread."""
    loss: float
    """Share of the packets that were received and did not get through, over all windows."""
    packets: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Setup:
    """One set-up: devices, packet length, core, and what is fixed for all settings."""

    size: int = 1500
    devices: Devices = "memif"
    defaults: Defaults = "testpmd"
    cpu: int | None = None
    """The core that forwards; the last one that this process may use if None."""

    def __post_init__(self) -> None:
        if not 64 <= self.size <= _SLOT_BYTES - 128:
            raise InputError(f"--size {self.size}: must be from 64 to {_SLOT_BYTES - 128} bytes, what one mbuf holds")
        allowed = sorted(os.sched_getaffinity(0))
        if self.cpu is not None and self.cpu not in allowed:
            raise InputError(f"--cpu {self.cpu}: must be one of {', '.join(map(str, allowed))}")

    @property
    def core(self) -> int:
        """The core that forwards."""
        return self.cpu if self.cpu is not None else max(os.sched_getaffinity(0))

    def whole(self, settings: Mapping[str, object]) -> dict[str, object]:
        """All settings: the defaults, and over them those given. testpmd's own pool has no entry."""
        return dict(PAPER if self.defaults == "paper" else OWN) | dict(settings)

    def check(self, settings: Mapping[str, object]) -> str | None:
        """Why it cannot start so; None where it can."""
        for path in settings:
            if path not in KNOBS:
                return f"{path}: is no setting of testpmd; there are {', '.join(KNOBS)}"
        whole = self.whole(settings)
        ring, cache = whole[DESCRIPTORS], whole[CACHE]
        for path, low, high in (
            (DESCRIPTORS, _SHORTEST, _LONGEST_RING),
            (BURST, 1, _MOST_BURST),
            (CACHE, 0, _MOST_CACHE),
            (BUFFERS, 64, 1 << 22),
        ):
            value = whole.get(path, low)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                return f"{path} = {value}: must be a whole number from {low} to {high}"
        if whole[KIND] not in ("fifo", "lifo"):
            return f"{KIND} = {whole[KIND]}: must be fifo (ring_mp_mc) or lifo (stack)"
        assert isinstance(ring, int)
        assert isinstance(cache, int)
        if self.devices == "memif" and ring & (ring - 1):
            return f"{DESCRIPTORS} = {ring}: must be a power of two: memif takes the logarithm"
        if self.devices == "null" and DESCRIPTORS in settings:
            return f"{DESCRIPTORS}: null devices have no ring; take --devices memif"
        pool = whole.get(BUFFERS)
        burst = whole[BURST]
        assert isinstance(burst, int)
        if isinstance(pool, int) and pool < (least := 2 * burst + 3 * cache // 2 + 32):
            return (
                f"{BUFFERS} = {pool}: two bursts of {burst} and a cache of {cache}, which keeps half as much again, "
                f"need {least} or more"
            )
        return None

    def bytes(self, settings: Mapping[str, object]) -> int:
        """Memory for its pool."""
        pool = self.whole(settings).get(BUFFERS, _OWN_BUFFERS)
        assert isinstance(pool, int)
        return pool * _MBUF_BYTES + _SPARE_BYTES

    def command(
        self, settings: Mapping[str, object], prefix: str = "wirespeed", huge: bool = True, socket: str = "memif.sock"
    ) -> list[str]:
        """The command line that forwards with these settings, without the `-i` of a measured start."""
        whole = self.whole(settings)
        ring, pool = whole[DESCRIPTORS], whole.get(BUFFERS)
        assert isinstance(ring, int)
        null = [f"--vdev=net_null{i},size={self.size},copy=1" for i in (0, 1)]
        memif = [
            f"--vdev=net_memif{i},role={role},id=0,socket-abstract=no,socket={socket},"
            f"rsize={ring.bit_length() - 1},bsize={_SLOT_BYTES}"
            for i, role in enumerate(("server", "client"))
        ]
        megabytes = -(-self.bytes(settings) >> 20)
        line = [PROGRAM, "-n", "4", "--no-pci", f"--file-prefix={prefix}"]
        line += ["--in-memory", "--single-file-segments"] if huge else ["--no-huge", "--no-shconf"]
        # ring_mp_mc is what testpmd takes by itself.
        line += ["--mbuf-pool-ops-name=stack"] if whole[KIND] == "lifo" else []
        line += ["-m", str(megabytes + megabytes % 2), "--lcores", f"0@{self.core},1@{self.core}"]
        line += [null[0], *(memif if self.devices == "memif" else []), null[1], "--"]
        line += ["--forward-mode=io", "--nb-cores=1", "--no-mlockall", "--no-flush-rx"]
        line += [f"--mbcache={whole[CACHE]}", f"--burst={whole[BURST]}"]
        line += [f"--total-num-mbufs={pool}"] if pool is not None else []
        return line

    def script(self, settings: Mapping[str, object], huge: bool = True) -> str:
        """Shell lines that run it as it is measured, as root: hugepages, a folder for the socket, and testpmd."""
        pages, lines = -(-self.bytes(settings) // hugepages.BYTES), []
        if huge:
            reserve = f"missing=$(({pages} - $(cat free_hugepages)))"
            more = '[ "$missing" -le 0 ] || echo $(($(cat nr_hugepages) + missing)) > nr_hugepages'
            lines.append(f"(cd {shlex.quote(os.fspath(hugepages.ROOT))} && {{ {reserve}; {more}; }})")
        socket = "memif.sock"
        if self.devices == "memif":
            # memif takes no socket in the folder where one stands, only one whose folder is named.
            lines.append("folder=$(mktemp -d)")
            socket = "$folder/memif.sock"
        words = self.command(settings, huge=huge, socket=socket)
        return "\n".join([*lines, " ".join(f'"{word}"' if "$" in word else shlex.quote(word) for word in words)])

    def measure(
        self,
        settings: Mapping[str, object],
        sampling: Sampling | None = None,
        is_stopped: Callable[[], bool] | None = None,
        huge: bool | None = None,
    ) -> Forwarded:
        """Starts it, forwards for some windows, ends it. Raises TargetError where it dies or hangs.

        With hugepages or without; where enough are free if `huge` is None.
        """
        sampling = sampling or Sampling()
        rates: list[float] = []
        received = through = 0
        cpu_ns = 0
        with self.started(settings, is_stopped, huge) as process:
            thread = process.polling_thread("^rte-worker")
            self.window(process, thread, sampling.warmup_s, is_stopped)
            while True:
                seen, sent, dropped, used = self.window(process, thread, sampling.window_s, is_stopped)
                received, through, cpu_ns = received + seen, through + sent, cpu_ns + used
                if sent == 0 and dropped == 0:
                    raise process.hung("forwards nothing", sampling.window_s)
                if used > 0:
                    rates.append(sent / (used / 1e9))
                if len(rates) >= sampling.least:
                    found = estimate(rates)
                    if found.is_within <= sampling.within or len(rates) >= sampling.most:
                        break
        # Of what is under way in a ring when a window ends nothing is lost: a ring may end fuller than it began.
        loss = max(0.0, 1 - through / received) if received else 0.0
        return Forwarded(found, loss, through, cpu_ns / 1e9)

    @contextlib.contextmanager
    def started(
        self,
        settings: Mapping[str, object],
        is_stopped: Callable[[], bool] | None = None,
        huge: bool | None = None,
    ) -> Iterator[Process]:
        """Running, and ready to forward."""
        require()
        if huge is None:
            huge = hugepages.free() * hugepages.BYTES >= self.bytes(settings)
        prefix = f"wirespeed-{os.getpid()}-{next(_numbers)}"
        with tempfile.TemporaryDirectory(prefix="wirespeed-") as folder:
            command = self.command(settings, prefix, huge, os.path.join(folder, "memif.sock"))  # noqa: PTH118
            split = command.index("--")
            command.insert(split + 1, "-i")
            try:
                with Process(command) as process:
                    try:
                        process.expect(re.escape(_PROMPT), _STARTS_WITHIN_S, is_stopped=is_stopped)
                    except TargetError as e:
                        raise TargetError(str(e), refused=(process.ended or 0) > 0) from None
                    if self.devices == "memif":
                        _connected(process)
                    yield process
                    if process.ended is None:
                        process.say("quit\n")
                    process.finish(2.0)
            finally:
                for base in (Path("/var/run/dpdk"), Path(os.environ.get("XDG_RUNTIME_DIR", "/tmp")) / "dpdk"):
                    shutil.rmtree(base / prefix, ignore_errors=True)

    def window(
        self, process: Process, thread: int, seconds: float, is_stopped: Callable[[], bool] | None = None
    ) -> tuple[int, int, int, int]:
        """Forwards for so long: packets received, sent on by the last device, dropped, and CPU nanoseconds."""
        before, since = process.cpu_ns(thread), process.printed
        process.say("start\n")
        process.expect(re.escape(_PROMPT), _ANSWERS_WITHIN_S, since)
        process.sleep(seconds, is_stopped)
        since = process.printed
        process.say("stop\n")
        text = process.expect(_STOPPED, _ANSWERS_WITHIN_S, since)[0]
        used = process.cpu_ns(thread) - before
        ports = {int(port): (int(rx), int(tx), int(dropped)) for port, rx, tx, dropped in _COUNTS.findall(text)}
        if len(ports) < 2:
            raise process.hung("has not told what it forwarded", _ANSWERS_WITHIN_S)
        ends = (min(ports), max(ports))  # the null devices, which make packets and take them
        return (
            sum(ports[port][0] for port in ends),
            sum(ports[port][1] for port in ends),
            sum(dropped for _, _, dropped in ports.values()),
            used,
        )


def require() -> None:
    """Raises TargetError, with what to do, where testpmd is not installed."""
    if shutil.which(PROGRAM) is None:
        raise TargetError(
            f"{PROGRAM}: is not installed; on Debian and Ubuntu: "
            "apt-get install --no-install-recommends dpdk-dev librte-net-memif23 (the last line of README.md)"
        )


def _connected(process: Process) -> None:
    """Waits until both ends of the memif have found each other."""
    ends = time.monotonic() + _ANSWERS_WITHIN_S
    for port in (1, 2):
        while True:
            since = process.printed
            process.say(f"show port info {port}\n")
            if process.expect(rf"(?s)Link status: (\w+).*?{_PROMPT}", _ANSWERS_WITHIN_S, since)[1] == "up":
                break
            if time.monotonic() >= ends:
                raise process.hung("has not joined its memif devices", _ANSWERS_WITHIN_S)
            process.sleep(0.02)
