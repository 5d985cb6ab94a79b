"""Caches and DRAM on their own: memory requests in, hits, latencies and bandwidth out; a machine's memory under load.

Requests are a file, a `Trace` that was read from one, or arrays: numpy's, `array.array`, or lists.
Documents are described in the guide, "Caches and DRAM on their own".
"""

from __future__ import annotations

import array
import json
import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from wirespeed import _wirespeed, files
from wirespeed._wirespeed import Trace
from wirespeed.curve import Curve, curve
from wirespeed.dma import DmaReads, dma
from wirespeed.errors import InputError

__all__ = [
    "Curve",
    "DmaReads",
    "Trace",
    "compare_drams",
    "curve",
    "dma",
    "read_trace",
    "simulate_cache",
    "simulate_dram",
    "write_trace",
]

Requests: TypeAlias = "Trace | str | os.PathLike[str] | Any"
PRESET: Final = "ddr4-2400u"
MOST_CLASS: Final = 15


def read_trace(path: str | os.PathLike[str], format: str | None = None) -> Trace:
    """Reads a trace of memory requests: plain, .gz, .xz or .zst; the format is told from its first line.

    `format` may be rw, ramulator, dramsim3, lackey, dynamorio or binary. Of the trace, `len` says how many requests it
    has, and `addresses()` (8 bytes each), `writes()` (1 byte each) and `clocks()` (8 bytes each) give them as bytes,
    which `numpy.frombuffer` takes. Raises InputError with file, line and what was expected there.
    """
    return Trace.read(os.fspath(path), format)


def write_trace(
    trace: Requests,
    path: str | os.PathLike[str],
    is_write: Any = None,
    arrivals: Any = None,
    io: Any = None,
    classes: Any = None,
) -> None:
    """Writes requests in the binary form, which is read many times as fast as text. Raises InputError and OSError."""
    judged = requests(trace, is_write, arrivals, io, classes)
    with files.replaced(path) as part:
        judged.write(os.fspath(part))


def simulate_dram(
    trace: Requests,
    preset: str | os.PathLike[str] = PRESET,
    *,
    is_write: Any = None,
    arrivals: Any = None,
    map: str | os.PathLike[str] | None = None,
    offered: str | None = None,
    queue: int | None = None,
    order: str | None = None,
    writes: str | None = None,
    page: str | None = None,
    refresh: str | None = None,
    channels: int | None = None,
    speed: int | None = None,
    record: bool = False,
) -> dict[str, Any]:
    """Runs requests through the controller and devices of a DRAM; returns the document of `wirespeed memory dram`.

    `trace` holds byte addresses (a file, a Trace, or an array of integers of 8 bytes); of an array, `is_write` says
    which are writes (none if left out) and `arrivals` at which clock each arrives. `preset` is a shipped standard
    or a TOML file ("hmc-2.1" is a cube with its links and crossbar, "hmc-2.1-vault" its vaults alone), `map` the parts
    of the address from high to low (`"row bank group column"`) or a TOML file.
    `offered` is "saturated", "every=20" (clocks) or "trace", which takes the arrivals; if left out "trace" where
    `arrivals` are given, and else "saturated". `queue`, `order`, `writes`,
    `page` and `refresh` set the controller.

    `channels`, a power of two up to 64, stands in place of the preset's; a map in parts that names no channel then
    spreads lines over them. `speed` is another data rate in MT/s, from half the preset's to twice: the preset of the
    family that is shipped for it; or else timings that keep their nanoseconds, rounded up to clocks, or their clocks
    where the standard counts clocks, without currents.

    With `record` the document has `accepted_clk` and `finished_clk`, too: by request, the clock in which it was
    accepted and the one after its last data, as uint64 memoryviews.

    The GIL is released meanwhile. Raises InputError for settings that contradict themselves, addresses beyond the
    device, and arrivals that decrease.

    >>> from wirespeed import memory
    >>> stream = range(0, 64 * 10_000, 64)
    >>> found = memory.simulate_dram(stream, "ddr4-2400u", map="row bank column group")
    >>> found["requests"], found["peak_share"] > 0.9
    (10000, True)
    """
    if offered is None:
        offered = "saturated" if arrivals is None else "trace"
    elif arrivals is not None and offered != "trace":
        raise InputError(
            f"arrivals: given with offered = {offered!r}, which does not look at them: leave one of them out"
        )
    standard, name = _file_or_name(preset)
    mapping, mapping_name = _file_or_name(map) if map is not None else (None, None)
    document, finished, accepted = _wirespeed.simulate_dram(
        requests(trace, is_write, arrivals),
        name,
        standard=standard,
        map=mapping if mapping is not None else mapping_name,
        map_file=mapping_name if mapping is not None else None,
        offered=offered,
        queue=None if queue is None else _count("queue", queue, 0, 2**32 - 1),
        order=order,
        writes=writes,
        page=page,
        refresh=refresh,
        channels=None if channels is None else _count("channels", channels, 1, 64),
        speed=None if speed is None else _count("speed", speed, 1, 2**32 - 1),
        record=record,
    )
    found: dict[str, Any] = json.loads(document)
    if record:
        found["accepted_clk"] = memoryview(accepted).cast("Q")
        found["finished_clk"] = memoryview(finished).cast("Q")
    return found


def compare_drams(
    trace: Requests,
    presets: Sequence[str | os.PathLike[str]],
    *,
    is_write: Any = None,
    arrivals: Any = None,
    **settings: Any,
) -> list[dict[str, Any]]:
    """Runs the same requests through each of several DRAMs; returns a document of `simulate_dram` for each.

    `settings` are those of `simulate_dram` but for `record`, the same for each. Clocks are each preset's own: so are
    the gaps of `offered` and the arrivals. Raises InputError as `simulate_dram`, and where there is no preset.

    >>> from wirespeed import memory
    >>> found = memory.compare_drams(range(0, 64 * 1000, 64), ["ddr5-4800b", "ddr5-5600b"])
    >>> [(each["preset"], each["peak_gb_per_s"]) for each in found]
    [('ddr5-4800b', 38.4), ('ddr5-5600b', 44.8)]
    """
    if isinstance(presets, (str, os.PathLike)) or not presets:
        raise InputError(f'presets: {presets!r}: must be a list of presets, as in ["ddr5-4800b", "ddr5-5600b"]')
    given = requests(trace, is_write, arrivals)
    if arrivals is not None:
        settings.setdefault("offered", "trace")
    return [simulate_dram(given, preset, **settings) for preset in presets]


def simulate_cache(
    trace: Requests,
    levels: str | Sequence[str],
    *,
    is_write: Any = None,
    io: Any = None,
    classes: Any = None,
    seed: int = 0,
    sample: int | None = None,
) -> dict[str, Any]:
    """Runs requests through a chain of empty caches; returns the document of `wirespeed memory cache`.

    `levels` are those of the chain, the nearest to the core first: `"32KiB/8,1MiB/16"` or `["32KiB/8", "1MiB/16"]`,
    each a size and its ways and behind colons what else there is to say: `"L3=16MiB/16:srrip:victim"`. `trace` and
    `is_write` are as for `simulate_dram`; of an array, `io` says which accesses are a device's, by DMA (none if left
    out; booleans), and `classes` of which class of service, 0 to 15, the others are. `seed` is for random replacement.
    With `sample=8` one of every 8 sets is simulated, drawn by `seed`: the counts are estimates, and
    `hit_rate_half_width` and `estimates` of each level say at 95 % how far off they may be.

    The GIL is released meanwhile. Raises InputError for levels that contradict themselves or each other.

    >>> from wirespeed import memory
    >>> lines = list(range(0, 64 * 1024, 64)) * 2
    >>> [(level["name"], level["hits"]) for level in memory.simulate_cache(lines, "32KiB/8,128KiB/16")["levels"]]
    [('L1', 0), ('L2', 1024)]
    """
    if isinstance(levels, str):
        text = levels
    elif isinstance(levels, Sequence) and all(isinstance(level, str) for level in levels):
        text = ",".join(levels)
    else:
        raise InputError(f'levels: {levels!r}: must be a text or a list of texts, as in "32KiB/8,1MiB/16"')
    seed = _count("seed", seed, 0, 2**64 - 1)
    one_in = None if sample is None else _count("sample", sample, 1, 2**64 - 1)
    given = requests(trace, is_write, io=io, classes=classes)
    found: dict[str, Any] = json.loads(_wirespeed.simulate_cache(given, text, seed, one_in))
    return found


def _count(name: str, value: Any, least: int, most: int) -> int:
    """An integer of Python's or of numpy's within bounds. Raises InputError."""
    try:
        count = operator.index(value)
    except TypeError:
        raise InputError(f"{name} = {value!r}: must be an integer") from None
    if not least <= count <= most:
        raise InputError(f"{name} = {count}: allowed are {least} to {most}")
    return count


def requests(trace: Requests, is_write: Any = None, arrivals: Any = None, io: Any = None, classes: Any = None) -> Trace:
    """What `trace` stands for. Raises InputError."""
    if isinstance(trace, (Trace, str, os.PathLike)):
        columns = {"is_write": is_write, "arrivals": arrivals, "io": io, "classes": classes}
        for given in (name for name, column in columns.items() if column is not None):
            raise InputError(f"{given}: a trace that was read has its own; give it with an array of addresses only")
        return trace if isinstance(trace, Trace) else read_trace(trace)
    clocks = None if arrivals is None else _integers("arrivals", arrivals)
    return Trace(
        _integers("addresses", trace),
        None if is_write is None else _flags("is_write", is_write),
        clocks,
        None if io is None else _flags("io", io),
        None if classes is None else _classes(classes),
    )


def _array(values: Any) -> Any:
    """The array of a column of pandas or polars; anything else as it is."""
    return values.to_numpy() if hasattr(values, "to_numpy") else values


def _integers(name: str, values: Any) -> Any:
    """Something that holds integers of 8 bytes in one dimension."""
    values = _array(values)
    if hasattr(values, "dtype") and hasattr(values, "astype"):
        if values.dtype.kind not in "iu":
            raise InputError(f"{name}: an array of {values.dtype}: must be integers")
        if values.dtype.itemsize != 8:
            values = values.astype("int64" if values.dtype.kind == "i" else "uint64")
    elif isinstance(values, Sequence) and not isinstance(values, (bytes, bytearray, memoryview, array.array)):
        try:
            values = array.array("Q", values)
        except (OverflowError, TypeError) as e:
            raise InputError(f"{name}: must be integers from 0 to 2**64 - 1: {e}") from None
    return _one_dimension(name, values)


def _classes(values: Any) -> bytes:
    """A byte for each class of service."""
    numbers: list[int] = _integers("classes", values).tolist()
    wrong = next((at for at, number in enumerate(numbers) if not 0 <= number <= MOST_CLASS), None)
    if wrong is not None:
        raise InputError(f"classes[{wrong}] = {numbers[wrong]}: allowed are 0 to {MOST_CLASS}")
    return bytes(numbers)


def _flags(name: str, values: Any) -> Any:
    values = _array(values)
    if isinstance(values, (list, tuple)):
        return bytes(map(bool, values))
    if hasattr(values, "dtype") and hasattr(values, "astype") and values.dtype.kind in "iu":
        _one_dimension(name, values)
        wrong = (values != 0) & (values != 1)
        if wrong.any():
            at = int(wrong.argmax())
            raise InputError(f"{name}[{at}] = {values[at]}: allowed are 0 and 1")
        values = values.astype("uint8")
    view = _one_dimension(name, values)
    if view.format not in ("?", "B", "b"):
        raise InputError(f"{name}: an array of format {view.format!r}: must be booleans, or integers of 0 and 1")
    return view.tobytes()


def _one_dimension(name: str, values: Any) -> memoryview:
    try:
        view = memoryview(values)
    except TypeError:
        raise InputError(f"{name}: {type(values).__name__}: must be an array or a list") from None
    if view.ndim != 1:
        raise InputError(f"{name}: an array of {view.ndim} dimensions: must have 1")
    return view


def _file_or_name(given: str | os.PathLike[str]) -> tuple[str | None, str]:
    """The text of a TOML file, or nothing; and how it was called."""
    name = os.fspath(given)
    if not name.endswith(".toml"):
        return None, name
    try:
        return Path(name).read_text(encoding="utf-8"), name
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"{name}: cannot be read: {e.strerror if isinstance(e, OSError) else e}") from None
