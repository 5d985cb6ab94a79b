"""A network processor from a preset or a file, every switch of which can be set (`crates/machine/src/microengines`)."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from wirespeed import _wirespeed, buffers, scenarios
from wirespeed import quantities as q
from wirespeed.errors import InputError, nearest

__all__ = ["Application", "run", "spec", "table"]

PRESET: Final = "ixp1200"


class Application(StrEnum):
    """What the processor does to packets."""

    l3fwd16 = "l3fwd16"
    nat = "nat"
    firewall = "firewall"


def run(
    processor: str | os.PathLike[str] = PRESET,
    set: scenarios.Overrides = None,
    *,
    application: str = Application.l3fwd16,
    traffic: str = "edge",
    packets: int = 30_000,
    warm_up: int = 10_000,
    seeds: int = 5,
    seed: int = 0,
    window: int = 16,
    trace_packets: int = 20_000,
) -> dict[str, Any]:
    """Runs a network processor; what was measured as `{"mean", "half_width"}` over the seeds (95 %; None of one).

    `processor` is a shipped one (`wirespeed presets --kind microengines`) or a TOML file; `set` overrides settings:
    `{"sdram.prefetch": True, "sdram.queues": "bank_parity"}`. `traffic` is edge, packmime, fixed=BYTES, a profile, a
    capture or a scenario, whose traffic it is. `packets` are measured after `warm_up` others have left, for each of
    `seeds` seeds; a trace has `trace_packets` and is repeated. `gbps` is of IP packets; `sdram_utilization`,
    `sdram_idle`, `engine_idle` and `row_hit_rate` are shares; `rows_input` and `rows_output` are rows touched in
    `window` references; `stalls_*` are times that an input thread waited; `fragmentation` is the share of memory taken
    that holds no packet.

    Raises InputError with the path, what came and what is allowed.

        >>> from wirespeed import microengines                                            # doctest: +SKIP
        >>> microengines.run(set={"sdram.prefetch": True}, seeds=1)["gbps"]["mean"]       # doctest: +SKIP
    """
    known = [str(each) for each in Application]
    if application not in known:
        raise InputError(f"application {application!r}: must be one of {', '.join(known)}{nearest(application, known)}")
    for name, value, least in (
        ("packets", packets, 1),
        ("warm_up", warm_up, 0),
        ("seeds", seeds, 1),
        ("seed", seed, 0),
        ("trace_packets", trace_packets, 1),
    ):
        if value < least:
            raise InputError(f"{name} = {value}: allowed are {least} and more")
    if window < 1:
        raise InputError(f"window = {window}: allowed are 1 and more references")
    load = {
        "application": str(application),
        "traffic": buffers.traffic_of(traffic),
        "packets": packets,
        "warm_up": warm_up,
        "seeds": seeds,
        "seed": seed,
        "window": window,
        "trace_packets": trace_packets,
    }
    origin, text = _found(processor)
    found: dict[str, Any] = json.loads(
        _wirespeed.run_microengines(origin, text, scenarios.overrides(set), json.dumps(load))
    )
    return found


def spec(
    processor: str | os.PathLike[str] = PRESET,
    set: scenarios.Overrides = None,
    *,
    application: str = Application.l3fwd16,
) -> str:
    """The processor with everything filled in, as TOML. Raises InputError as `run` does."""
    origin, text = _found(processor)
    return _wirespeed.microengines_spec(origin, text, scenarios.overrides(set), str(application))


def _found(processor: str | os.PathLike[str]) -> tuple[str, str | None]:
    spelled = os.fspath(processor)
    if not spelled.endswith(".toml") and not Path(spelled).is_file():
        return spelled, None
    try:
        return spelled, Path(spelled).read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        raise InputError(f"{spelled}: is not UTF-8 text (byte {e.start}); a processor is a TOML file") from None
    except OSError as e:
        raise InputError(f"{spelled}: {e.strerror or e}") from None


_SHOWN: Final = (
    ("gbps", "throughput, Gbps", 1, 3),
    ("mpps", "throughput, Mpps", 1, 3),
    ("sdram_utilization", "SDRAM moves data, %", 100, 1),
    ("sdram_idle", "SDRAM has nothing to do, %", 100, 1),
    ("engine_idle_input", "input engines idle, %", 100, 1),
    ("engine_idle_output", "output engines idle, %", 100, 1),
    ("row_hit_rate", "references that find their row latched, %", 100, 1),
    ("rows_input", "rows in {window} references, input", 1, 2),
    ("rows_output", "rows in {window} references, output", 1, 2),
    ("batch_reads", "reads in a row, in mean transfers", 1, 2),
    ("batch_writes", "writes in a row, in mean transfers", 1, 2),
    ("in_flight", "packets in flight", 1, 1),
    ("stalls_in_flight", "input stalls: packets in flight", 1, 0),
    ("stalls_memory", "input stalls: packet buffer", 1, 0),
    ("stalls_with_room", "requests refused though cells were free", 1, 0),
    ("fragmentation", "memory taken that holds no packet, %", 100, 1),
    ("discarded", "packets that software discarded", 1, 0),
)


def table(found: Mapping[str, Any]) -> Table:
    """What was measured, with half-widths of 95 %, for people."""
    load, processor = found["load"], found["processor"]
    sdram, buffer = processor["sdram"], processor["buffer"]
    title = (
        f"{load['application']}, {sdram['banks']} banks, {buffer['allocation']}: "
        f"{load['seeds']} x {load['packets']:,} packets\n{_separated(found['traffic'])}"
    )
    shown = Table("", title=title, title_justify="left")
    shown.add_column("", justify="right")
    for name, words, scale, digits in _SHOWN:
        mean, half_width = found[name]["mean"], found[name]["half_width"]
        value = q.MISSING if mean is None or not math.isfinite(mean) else f"{mean * scale:,.{digits}f}"
        width = "" if half_width is None else f" ± {half_width * scale:,.{digits}f}"
        shown.add_row(words.format(window=load["window"]), value + width)
    return shown


def _separated(text: str) -> str:
    """Counts of what traffic is with their thousands separated; names of files stay as they are.

    >>> _separated("20000 packets of 1500 flows, 1000 dropped of mine-20000.pcap")
    '20,000 packets of 1,500 flows, 1,000 dropped of mine-20000.pcap'
    """
    return _COUNTS.sub(lambda found: f"{int(found.group()):,}", text)


_COUNTS: Final = re.compile(r"(?<![\w./-])\d{4,}(?= (?:packets|flows|not IPv4|dropped)\b)")
