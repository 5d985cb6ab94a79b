"""GPUs: shipped presets and files of one's own, settings over them, and the equal part of one that is simulated."""

from __future__ import annotations

import copy
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wirespeed import _wirespeed, units
from wirespeed.errors import InputError, nearest

SYSTEMS: Final = ("hermes", "batch")
WARP: Final = 32
SECTOR: Final = 32
LINE: Final = 64
_SECTIONS: Final = ("gpu", *SYSTEMS)
# What is simulated at a time where a preset does not say: more takes longer, and is not more exact.
_MOST_CORES: Final = 256
_MOST_CHANNELS: Final = 64
_FEW_CORES: Final = 48


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU with how it is fed: the sections of a preset, and its name."""

    name: str
    title: str
    spec: Mapping[str, Any]

    @property
    def parts(self) -> int:
        """Of so many equal parts one is simulated."""
        gpu = self.spec["gpu"]
        channels = gpu["memory"].get("channels", 1)
        usual = max(math.ceil(gpu["cores"] / _MOST_CORES), math.ceil(channels / _MOST_CHANNELS))
        return min(int(self.spec.get("parts", usual)), int(gpu["cores"]))

    @property
    def hertz(self) -> float:
        """The clock of its cores."""
        return quantity("gpu.frequency", self.spec["gpu"]["frequency"], "frequency")

    @property
    def io_gbps(self) -> float:
        """What packets come and go by, each way."""
        return quantity("io", self.spec.get("io", self.spec["batch"]["link"]), "bits") / 1e9

    @property
    def memory_bytes(self) -> float | None:
        """Of its memory; None where the preset does not say."""
        size = self.spec.get("memory")
        return None if size is None else float(units.size("memory", str(size)))

    def part(self, parts: int | None = None) -> tuple[dict[str, Any], float]:
        """One of so many equal parts as sections of a preset, and how many such parts the GPU has; else `self.parts`.

        Cores, banks, channels, the link and a dispatcher's tasks are divided. The L2 keeps its size: all parts see the
        same tables, and of packets a part brings in as much less as it has time for.
        """
        spec = copy.deepcopy(dict(self.spec))
        gpu, parts = spec["gpu"], parts or self.parts
        whole = gpu["cores"]
        gpu["cores"] = _divided(whole, parts)
        gpu["l2"]["banks"] = _divided(gpu["l2"]["banks"], parts)
        if parts > 1:
            gpu["memory"]["channels"] = _divided(channels_of(gpu["memory"]), parts)
            spec["batch"]["link"] = f"{quantity('batch.link', spec['batch']['link'], 'bits') / 1e9 / parts!r} Gbps"
            spec["batch"]["packets"] = _divided(spec["batch"]["packets"], parts)
            if dispatcher := spec["hermes"].get("dispatcher"):
                # A part has its share of the tasks of a round, which takes as long as the whole's.
                word, task = (span_ns(f"hermes.dispatcher.{name}", dispatcher[name]) for name in ("word", "task"))
                dispatcher |= {name: _divided(dispatcher[name], parts) for name in ("least", "most")}
                dispatcher |= {"word": f"{word + task * (parts - 1)!r} ns", "task": f"{task * parts!r} ns"}
        return spec, whole / gpu["cores"]


def round_ns(dispatcher: Mapping[str, Any]) -> float:
    """A dispatcher's round that finds as many tasks as it asks for at most, ns."""
    word, task, publish = (
        span_ns(f"hermes.dispatcher.{name}", dispatcher[name]) for name in ("word", "task", "publish")
    )
    return word + (int(dispatcher["most"]) - 1) * task + publish


def find(preset: str) -> Gpu:
    """A shipped GPU by its name, or that of a TOML file. Raises InputError with the nearest name."""
    shipped = [name for kind, name, _ in _wirespeed.presets() if kind == "gpu"]
    if preset in shipped:
        text = _wirespeed.preset("gpu", preset)
    elif preset.endswith(".toml") or Path(preset).is_file():
        text = _read(Path(preset))
    else:
        raise InputError(
            f"--preset {preset}: no shipped GPU of that name{nearest(preset, shipped)}; shipped are "
            f"{', '.join(shipped)}, and a file of your own ends in .toml"
        )
    try:
        spec = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise InputError(f"{preset}: is no TOML: {e} (`wirespeed presets hermes` prints one to begin with)") from None
    if missing := [name for name in _SECTIONS if not isinstance(spec.get(name), dict)]:
        raise InputError(
            f"{preset}: lacks [{'], ['.join(missing)}]; a GPU has [{'], ['.join(_SECTIONS)}] "
            "(`wirespeed presets hermes` prints one to begin with)"
        )
    title = text.splitlines()[0].lstrip("# ") if text.startswith("#") else preset
    return Gpu(preset, title, spec)


def altered(gpu: Gpu, settings: Sequence[tuple[str, Any]]) -> Gpu:
    """The GPU with settings over it, paths of the preset such as `gpu.cores`. Raises InputError, all faults at once."""
    spec, faults = copy.deepcopy(dict(gpu.spec)), []
    for path, value in settings:
        try:
            _put(spec, path, value)
        except InputError as e:
            faults.append(str(e))
    faults += _faults(spec)
    if faults:
        raise InputError("\n".join(faults))
    return Gpu(gpu.name, gpu.title, spec)


def _faults(spec: Mapping[str, Any]) -> list[str]:
    """What the simulator does not say, or not by itself."""
    faults = []
    gpu = spec["gpu"]
    counts = [("parts", spec.get("parts", 1)), *((f"gpu.{name}", gpu.get(name, 1)) for name in ("cores", "registers"))]
    for path, value in counts:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            faults.append(f"{path} = {value!r}: must be a whole number above 0")
    kinds: tuple[tuple[str, units.Kind], ...] = (("gpu.frequency", "frequency"), ("batch.link", "bits"), ("io", "bits"))
    for path, kind in kinds:
        section, _, name = path.rpartition(".")
        value = (spec[section] if section else spec).get(name)
        if value is not None:
            try:
                quantity(path, value, kind)
            except InputError as e:
                faults.append(str(e))
    faults += [
        f"gpu.{name}: is missing; a GPU has [gpu.l2] and [gpu.memory]"
        for name in ("l2", "memory")
        if not isinstance(gpu.get(name), dict)
    ]
    if (size := spec.get("memory")) is not None:
        try:
            units.size("memory", str(size))
        except InputError as e:
            faults.append(str(e))
    return faults


def quantity(path: str, value: Any, kind: units.Kind) -> float:
    """A quantity of a preset in its base unit. Raises InputError for what is none, or not above 0."""
    found = units.parse(str(value))
    if found is None or found.kind != kind or found.value <= 0:
        example = {"frequency": "1.98 GHz", "bits": "424 Gbps", "time": "20 ns"}.get(kind, "1")
        raise InputError(f"{path} = {value!r}: must be above 0, for example {example!r}")
    return found.value


def span_ns(path: str, value: Any) -> float:
    """A time of a preset, which may be 0, in ns. Raises InputError."""
    found = units.parse(str(value))
    if found is None or found.kind != "time" or found.value < 0:
        raise InputError(f"{path} = {value!r}: must be a time, for example '6.5 us'")
    return found.value * 1e9


def channels_of(memory: Mapping[str, Any]) -> int:
    """Channels of a GPU's memory."""
    return int(memory.get("channels") or _standard(memory["standard"])["channels"])


def shortened(gpu: Gpu) -> Gpu:
    """The GPU in smaller parts, for work of which each lane takes long."""
    gpu_parts = gpu.parts
    times = math.ceil(gpu.spec["gpu"]["cores"] / gpu_parts / _FEW_CORES)
    return gpu if times <= 1 else Gpu(gpu.name, gpu.title, {**gpu.spec, "parts": gpu_parts * times})


def idle(gpu: Gpu) -> dict[str, float]:
    """What an idle GPU takes, in closed form: clocks of a load that hits L1, L2 or neither, peak GB/s of L2 and DRAM.

    A sector takes a clock at the core's port and one at the L2's bank, wires both ways, then the L2's latency; a miss
    the controller, activate, column and the line's bursts more (`machine::simt::memory`, `unloaded_miss`).
    """
    spec = gpu.spec["gpu"]
    l2, memory = spec["l2"], spec["memory"]
    standard = _standard(memory["standard"])
    timing, clock_ns = standard["timings"], 1e3 / standard["clock_mhz"]
    burst_ns = timing["BL"] * clock_ns * math.ceil(LINE / standard["access_bytes"])
    hit = 2 + 2 * spec["interconnect"] + l2["latency"]
    dram_ns = span_ns("gpu.memory.overhead", memory["overhead"])
    dram_ns += (timing["RCD"] + timing["CL"]) * clock_ns + burst_ns
    found = {
        "l2_hit_clocks": float(hit),
        "miss_clocks": hit + dram_ns * gpu.hertz / 1e9,
        "l2_gb_per_s": l2["banks"] * SECTOR * gpu.hertz / 1e9,
        "dram_gb_per_s": channels_of(memory) * LINE / burst_ns,
    }
    if "l1" in spec:
        found["l1_hit_clocks"] = 1.0 + spec["l1"]["latency"]
    return found


def _standard(name: str) -> dict[str, Any]:
    return tomllib.loads(_wirespeed.preset("dram", name))


def _divided(whole: int, parts: int) -> int:
    return max(1, round(whole / parts))


def _put(spec: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split(".")
    at: Any = spec
    for name in above:
        if not isinstance(at, dict) or name not in at:
            known = list(at) if isinstance(at, dict) else []
            raise InputError(f"--set {path}: no {name} here{nearest(name, known)}; there are {', '.join(known)}")
        at = at[name]
    if not isinstance(at, dict):
        raise InputError(f"--set {path}: {'.'.join(above)} has no members")
    if not above and last not in ("parts", "memory", "io"):
        known = ["parts", "memory", "io", *(f"{section}.…" for section in _SECTIONS)]
        raise InputError(f"--set {path}: no such setting{nearest(last, known)}; there are {', '.join(known)}")
    at[last] = value


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        raise InputError(f"{path}: is not UTF-8 text (byte {e.start}); a GPU is a TOML file") from None
    except OSError as e:
        raise InputError(f"{path}: {e.strerror or e}") from None
