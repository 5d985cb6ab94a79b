"""A calibration from end to end: measured, fitted, written, and judged by loops that it was not fitted on."""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wirespeed import _wirespeed, files
from wirespeed.calibrate import MARK, fitting, measuring
from wirespeed.calibrate.fitting import Fitted
from wirespeed.calibrate.measuring import KIB, MIB, Measured, Progress

SCHEMA: Final = "wirespeed.calibration/2"
# None of these was fitted on: other operations, other mixes, and sizes between those of the fitted chases.
_JUDGES: Final[tuple[tuple[str, Mapping[str, Any]], ...]] = (
    ("random loads, 256 KiB", {"kind": "random", "bytes": 256 * KIB, "stores": 0.0}),
    ("random loads, 4 MiB", {"kind": "random", "bytes": 4 * MIB, "stores": 0.0}),
    ("random mix, 30 % stores, 4 MiB", {"kind": "random", "bytes": 4 * MIB, "stores": 0.3}),
    ("random mix, 30 % stores, 20 MiB", {"kind": "random", "bytes": 20 * MIB, "stores": 0.3}),
    ("random mix, 30 % stores, 192 MiB", {"kind": "random", "bytes": 192 * MIB, "stores": 0.3}),
    ("stride of 3 lines, 5 MiB", {"kind": "stride", "bytes": 5 * MIB, "stride": 192}),
    ("stride of 3 lines, 96 MiB", {"kind": "stride", "bytes": 96 * MIB, "stride": 192}),
    ("stride of 65 lines, 96 MiB", {"kind": "stride", "bytes": 96 * MIB, "stride": 4160}),
    ("lines written, 6 MiB", {"kind": "stream", "operation": "write", "bytes": 6 * MIB}),
    ("lines written, 160 MiB", {"kind": "stream", "operation": "write", "bytes": 160 * MIB}),
    ("copies of 1500 B, 3 MiB", {"kind": "copy", "bytes": 3 * MIB, "block": 1500}),
    ("copies of 1500 B, 96 MiB", {"kind": "copy", "bytes": 96 * MIB, "block": 1500}),
    ("blocks of 8 lines, 32 apart, 6 MiB", measuring.read_blocks(8, 32, 6 * MIB)),
    ("blocks of 8 lines, 32 apart, 96 MiB", measuring.read_blocks(8, 32, 96 * MIB)),
    ("two chains, 6 MiB", {"kind": "chase", "bytes": 6 * MIB, "chains": 2}),
    ("four chains, 160 MiB", {"kind": "chase", "bytes": 160 * MIB, "chains": 4}),
)
_SECTIONS: Final = (
    ("machine", ""),
    ("machine.core", ""),
    ("machine.l1", ""),
    ("machine.l2", ""),
    ("machine.tlb", ""),
    ("machine.prefetcher", ""),
    ("machine.llc", ""),
    ("machine.dram", ""),
)
# A guest has no NIC of its own that could be measured: what a 100 Gbps one has, as the shipped presets say.
_REST: Final = """
[nic]
ports = 2              # assumed: in by the first, out by either
rate = "100 Gbps"      # assumed: not measured
rx_descriptors = 1024  # RX_DESC_DEFAULT of DPDK 22.11's l3fwd
tx_descriptors = 1024  # TX_DESC_DEFAULT of DPDK 22.11's l3fwd
burst = 32             # MAX_PKT_BURST of DPDK's l3fwd
fifo = "512 KiB"       # receive packet buffer of the Intel 82599 (datasheet 331520)

[nic.pcie]
rate = "231.6 Gbps"    # 16 lanes at 16 GT/s less encoding and data link layer: Neugebauer et al., SIGCOMM 2018
max_payload = 256      # same
overhead = 24          # same: header and framing of a write
latency = "250 ns"     # assumed: half of the 500 to 600 ns that a 64 B DMA read takes there

[mempool]
size = 16384           # cores x (rx + ports x tx + burst + 1.5 cache), rounded up to a power of two
cache = 256            # MEMPOOL_CACHE_SIZE of DPDK's l3fwd
kind = "fifo"          # ring_mp_mc, DPDK's default
"""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A machine that was measured. `document` is all of it, as JSON has it; `preset` the machine's file."""

    document: Mapping[str, Any]
    preset: str

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the preset, whole or not at all. Raises OSError where that fails, and InputError for a link."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        files.write(path, self.preset)


def calibrate(
    cpu: int | None = None,
    judge: bool = True,
    progress: Progress | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Calibration:
    """Measures this machine on one core (the last one if None), in three to five minutes.

    With `judge` the preset is judged by loops that it was not fitted on. What others leave of the LLC is measured
    before and after `meanwhile`, for a program that is measured there and compared with the preset; it comes on top of
    the minutes, and its exceptions pass through. Raises InputError for a core that this process may not use, and
    OSError where there is too little memory.
    """
    begun = time.monotonic()
    found = measuring.measure(cpu, progress, meanwhile)
    measured_s = time.monotonic() - begun
    if progress is not None:
        progress("fitting", 0, 0, "")
    fitted = fitting.fit(found)
    preset = _preset(found, fitted)
    # What is written has to be a machine.
    _wirespeed.Scenario("", "calibration", fitted.overrides())
    judged = _judge(found, fitted, progress) if judge else []
    document = {
        "schema": SCHEMA,
        "processor": found.model,
        "core": found.core,
        "date": _today(),
        "measured_s": measured_s,
        "seconds": time.monotonic() - begun,
        "machine": fitted.values,
        "sources": fitted.sources,
        "not_determined": fitted.notes,
        "measured": {
            "multiply_ns": found.multiply_ns,
            "chase_ns": {str(bytes): ns for bytes, ns in found.chase.items()},
            "windows_ns": {f"{chains} {bytes}": ns for (chains, bytes), ns in found.windows.items()},
            "pages_ns": {str(number): list(ns) for number, ns in found.pages.items()},
            "chains_ns": {str(number): ns for number, ns in found.chains.items()},
            "random_ns": found.random_ns,
            "llc_chains_ns": {str(number): ns for number, ns in found.llc_chains.items()},
            "streams_ns": {f"{operation} {bytes}": ns for (operation, bytes), ns in found.streams.items()},
            "copies_ns": {str(bytes): ns for bytes, ns in found.copies.items()},
            "blocks_ns": {f"{lines} {apart}": ns for (lines, apart), ns in found.blocks.items()},
            "kept_blocks_ns": {str(bytes): ns for bytes, ns in found.kept_blocks.items()},
            "shared_read_ns": {str(number): ns for number, ns in found.shared_read.items()},
        },
        "judged": judged,
        "geometric_error_pct": geometric_error(judged),
    }
    return Calibration(document, preset)


def geometric_error(judged: list[dict[str, Any]]) -> float | None:
    """The mean factor between simulated and measured, as percent above 1; None without any."""
    if not judged:
        return None
    mean = sum(abs(math.log(each["simulated_ns"] / each["measured_ns"])) for each in judged) / len(judged)
    return 100 * (math.exp(mean) - 1)


def _judge(found: Measured, fitted: Fitted, progress: Progress | None) -> list[dict[str, Any]]:
    rows = []
    for number, (name, loop) in enumerate(_JUDGES):
        if progress is not None:
            progress("judging", number, len(_JUDGES), "")
        work = {**loop, "chains": loop.get("chains", 1)} if loop["kind"] == "chase" else loop
        # As a program sees it, which is what the preset is for.
        measured = measuring.windowed(work, found.core)
        (simulated,) = fitting.simulate(fitted.overrides(), [loop])
        error = 100 * (simulated / measured - 1)
        rows.append({"loop": name, "measured_ns": measured, "simulated_ns": simulated, "error_pct": error})
    return rows


def _preset(found: Measured, fitted: Fitted) -> str:
    lines = [
        f"# {found.model}, calibrated on {_today()} (core {found.core}, Linux {platform.release()})",
        "#",
        f"# {MARK}: each number has its measurement beside it, or says that it is assumed.",
        *(f"# Not determined: {note}" for note in fitted.notes),
    ]
    for section, _ in _SECTIONS:
        own = {
            path.rpartition(".")[2]: (value, fitted.sources.get(path, ""))
            for path, value in fitted.values.items()
            if path.rpartition(".")[0] == section
        }
        if not own:
            continue
        lines += ["", f"[{section}]"]
        for name, (value, source) in own.items():
            text = f"{name} = {json.dumps(value) if isinstance(value, str) else value}"
            lines.append(f"{text:<22} # {source}" if source else text)
    return "\n".join(lines) + "\n" + _REST


def _today() -> str:
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()
