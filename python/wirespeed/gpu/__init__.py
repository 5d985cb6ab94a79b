"""Packet functions on a GPU: what it carries, how long packets take, and what binds.

A kernel that stays on the GPU and takes packets as they come (`hermes`) beside batches that are copied there and back
(`batch`). The model is `machine::simt` (`studies::simt`); what is divided and judged is here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from wirespeed import _wirespeed, scenarios, units, written
from wirespeed.errors import InputError, nearest
from wirespeed.gpu import judging, machines, work
from wirespeed.gpu.documents import GpuDocument, GpuFound, GpuPoint
from wirespeed.gpu.machines import SYSTEMS, WARP, Gpu
from wirespeed.gpu.work import Work
from wirespeed.sweep import axes

__all__ = ["gpu"]

System = Literal["hermes", "batch", "both"]
Progress = Callable[[str, int, int, str], None]

PRESET: Final = "h100"
# Far beyond what any GPU carries.
_SATURATED_MPPS: Final = 20_000.0
_USUAL_SHARE: Final = 0.9
# Below this share of what the GPU alone carries all of it is simulated: it has little to do.
_IDLE: Final = 0.5
# Packets of a run: of the resident kernel so often what it holds, of batches so many; no more than a buffer's slots.
_FILLS: Final = 3
_BATCHES: Final = 24
_LEAST: Final = 16_384
_LEAST_LONG: Final = 4096
_MOST: Final = 1 << 18
# `8..132` alone is so many values.
_VALUES: Final = 8


def gpu(
    what: str | os.PathLike[str] = "forward",
    preset: str | os.PathLike[str] = PRESET,
    set: scenarios.Overrides = None,
    *,
    system: System = "both",
    rate: str | None = None,
    vary: str | None = None,
    profile: str | None = None,
    capture: str | os.PathLike[str] | None = None,
    table: str | os.PathLike[str] | None = None,
    packets: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> GpuDocument:
    """What a GPU does with a packet function, a chain (`"check,lookup,ttl"`) or a scenario's: rate, delay, what binds.

    `preset` is a shipped GPU (`wirespeed presets --kind gpu`) or a TOML file. `set` overrides settings: of the preset
    (`gpu.cores`, `batch.packets`), of the kernel (`kernel.registers`, `kernel.shared`) and of the work
    (`workload.routes.prefixes`). `rate` ("100 Gbps" on the wire, "30 Mpps") is what is offered as delays are measured;
    without it that of the scenario, or 90 % of what is carried. `vary` is a setting with its values
    ("gpu.cores=64..512*2"). `packets` is how many a run has. Rates and delays are of the whole GPU, of which one of
    equal parts is simulated where it is large. Raises InputError, all faults at once.

        >>> import wirespeed                                                              # doctest: +SKIP
        >>> wirespeed.gpu("lookup", "h100", rate="100 Gbps")["points"][0]["systems"]      # doctest: +SKIP
    """
    asked = _asked(what, preset, set, system, rate, vary, (profile, capture, table))
    _judge_counts(packets, seed)
    study = _Study(asked, packets, seed, threads, progress or _silent)
    found = study.points()
    first = asked.cases[0].gpu
    return GpuDocument(
        schema="wirespeed.gpu/1",
        preset=first.name,
        title=first.title,
        parts=first.part()[1],
        functions=list(asked.work.functions),
        frame_bytes=study.frame_bytes,
        gpu=json.loads(json.dumps(first.spec)),
        idle=machines.idle(first),
        vary=asked.vary,
        load=None if asked.load is None else dict(asked.load),
        seed=seed,
        points=found,
        notes=_notes(asked, study),
    )


def _silent(phase: str, done: int, total: int, note: str) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A value of what is varied, with the GPU, the work and the kernels that it makes."""

    value: Any
    gpu: Gpu
    workload: Mapping[str, Any]
    kernels: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked for."""

    work: Work
    systems: tuple[str, ...]
    load: Mapping[str, Any] | None
    vary: str | None
    cases: tuple[_Case, ...]


class _Faults:
    """What is wrong, to be told at once."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def tried(self, what: Callable[[], Any]) -> Any:
        """What comes of it; None, and a fault, if it is refused."""
        try:
            return what()
        except InputError as e:
            self._found.append(str(e))
            return None

    def add(self, text: str) -> None:
        """A fault."""
        self._found.append(text)

    def tell(self) -> None:
        """Raises InputError if there is any."""
        if self._found:
            raise InputError("\n".join(self._found))


def _asked(
    what: str | os.PathLike[str],
    preset: str | os.PathLike[str],
    set: scenarios.Overrides,
    system: str,
    rate: str | None,
    vary: str | None,
    traffic: tuple[str | None, str | os.PathLike[str] | None, str | os.PathLike[str] | None],
) -> _Asked:
    faults = _Faults()
    profile, *files = traffic
    capture, table = (None if file is None else os.fspath(file) for file in files)
    job: Work | None = faults.tried(lambda: work.find(what, capture, table, profile))
    found: Gpu | None = faults.tried(lambda: machines.find(os.fspath(preset)))
    settings: list[tuple[str, Any]] = faults.tried(lambda: [*map(written.parsed, scenarios.overrides(set))]) or []
    load = None if rate is None else faults.tried(lambda: _load(rate))
    axis = None if vary is None else faults.tried(lambda: _axis(vary))
    known = (*SYSTEMS, "both")
    if system not in known:
        faults.add(f"--system {system}: must be one of {', '.join(known)}{nearest(system, known)}")
    levels: list[tuple[Any, list[tuple[str, Any]]]] = [(None, [])]
    if axis is not None:
        levels = [(value, [(axis.name, value)]) for value in (level.value for level in axis.levels)]
    systems = SYSTEMS if system == "both" else (system,)
    cases = []
    if job is not None and found is not None and system in known:
        whole = found, job, systems
        cases = [faults.tried(partial(_case, value, *whole, [*settings, *more])) for value, more in levels]
    faults.tell()
    assert job is not None  # else there is a fault
    return _Asked(job, systems, load or job.load, None if axis is None else axis.name, tuple(cases))


def _axis(text: str) -> axes.Axis:
    """An axis; a range of whole numbers without a step has a few values, at even distances."""
    found = axes.parse(text)
    is_plain = ".." in text and not any(sign in text.partition("..")[2] for sign in "+*/")
    if not is_plain or len(found.levels) <= _VALUES:
        return found
    steps = (len(found.levels) - 1) / (_VALUES - 1)
    return axes.Axis(found.name, tuple(found.levels[round(n * steps)] for n in range(_VALUES)))


def _load(rate: str) -> dict[str, Any]:
    found = units.rate("--rate", rate)
    return {"packets" if found.kind == "packets" else "l1": rate}


def _case(value: Any, gpu: Gpu, job: Work, systems: Sequence[str], settings: Sequence[tuple[str, Any]]) -> _Case:
    """A GPU, a workload and kernels with settings over them. Raises InputError."""
    of = {"workload": [], "kernel": [], "": []}  # type: dict[str, list[tuple[str, Any]]]
    for path, it in settings:
        head = path.partition(".")[0]
        of[head if head in of else ""].append((path, it))
    faults = _Faults()
    kernel: dict[str, Any] = {"registers": None, "shared": 0}
    for path, it in of["kernel"]:
        name = path.partition(".")[2]
        if name not in kernel:
            faults.add(f"{path}: no such setting{nearest(name, kernel)}; there are kernel.registers and kernel.shared")
        elif not isinstance(it, int) or isinstance(it, bool) or it < (name == "registers"):
            faults.add(f"{path} = {it!r}: must be a whole number{' above 0' if name == 'registers' else ''}")
        else:
            kernel[name] = it
    altered = faults.tried(lambda: machines.altered(gpu, of[""]))
    workload = faults.tried(lambda: _put(job.workload, of["workload"]))
    faults.tell()
    if job.is_long and all(path != "parts" for path, _ in settings):
        altered = machines.shortened(altered)
    kernels = {system: job.kernel(system, kernel["registers"], kernel["shared"]) for system in SYSTEMS}
    for system in systems:
        if judging.warps(altered, kernels[system])[0] == 0:
            faults.add(
                f"kernel of {system}: {kernels[system]['registers']} registers a lane, {kernels[system]['shared']} B a "
                f"warp: a core has {altered.spec['gpu']['registers']} registers and {altered.spec['gpu']['shared']}; a "
                "warp must fit"
            )
    faults.tell()
    return _Case(value, altered, workload, kernels)


def _put(workload: Mapping[str, Any], settings: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A workload with settings over it; the simulator judges what they are."""
    out = json.loads(json.dumps(workload))
    for path, value in settings:
        _, *above, last = path.split(".")
        at = out
        for name in above:
            at = at.setdefault(name, {}) if isinstance(at, dict) else {}
        at[last] = value
    return dict(out)


def _judge_counts(packets: int | None, seed: int) -> None:
    faults = _Faults()
    if packets is not None and packets < 1:
        faults.add(f"packets = {packets}: allowed are 1 and more")
    if seed < 0:
        faults.add(f"seed = {seed}: allowed are 0 and more")
    faults.tell()


class _Study:
    """The points of what was asked for: saturated first, then at the load."""

    def __init__(self, asked: _Asked, packets: int | None, seed: int, threads: int | None, progress: Progress) -> None:
        self._asked, self._packets, self._seed = asked, packets, seed
        self._threads, self._progress = threads, progress
        self.frame_bytes = 0.0
        self.notes: list[str] = []

    def points(self) -> list[GpuPoint]:
        """What each system does at each value."""
        asked = self._asked
        pairs = [(case, system) for case in asked.cases for system in asked.systems]
        full = self._run("saturated", [self._saturated(case, system) for case, system in pairs])
        self._judge_memory(pairs, full)
        self.frame_bytes = judging.frame_bytes(full[0])
        loaded = [self._loaded(case, system, it) for (case, system), it in zip(pairs, full, strict=True)]
        at_load = self._run("at load", [point for point, _ in loaded])
        found = [
            judging.found(case.gpu, system, case.kernels[system], filled, judging.Loaded(it, parts))
            for (case, system), filled, it, (_, parts) in zip(pairs, full, at_load, loaded, strict=True)
        ]
        width = len(asked.systems)
        systems: list[list[GpuFound]] = [found[at : at + width] for at in range(0, len(found), width)]
        return [GpuPoint(value=case.value, systems=of) for case, of in zip(asked.cases, systems, strict=True)]

    def _saturated(self, case: _Case, system: str) -> dict[str, Any]:
        """A point of a part to which more comes than it carries."""
        part, _ = case.gpu.part()
        if system == "hermes":
            # Laid in beforehand: what arrives all at once would keep the GPU from memory.
            part["hermes"]["buffer"]["nic"] = False
            held = part["gpu"]["cores"] * judging.warps(case.gpu, case.kernels[system])[0] * WARP
        wanted = _FILLS * held if system == "hermes" else _BATCHES * part["batch"]["packets"]
        return self._point(case, system, part, {"packets": f"{_SATURATED_MPPS!r} Mpps"}, wanted)

    def _loaded(self, case: _Case, system: str, full: judging.Outcome) -> tuple[dict[str, Any], float]:
        """A point at the load, and of how many parts it is one.

        The whole GPU where the load leaves most of it idle: packets wait for a warp's worth at the rate of the whole.
        """
        parts = case.gpu.part()[1]
        carried = min(judging.alone(case.gpu, system, full, parts), judging.io_mpps(case.gpu, full))
        load = self._asked.load or {"packets": f"{carried * _USUAL_SHARE!r} Mpps"}
        offered = judging.offered_mpps(load, judging.frame_bytes(full))
        is_idle = system == "hermes" and offered < _IDLE * judging.value(full, "throughput_mpps") * parts
        part, parts = case.gpu.part(1 if is_idle else None)
        wanted = _BATCHES * part["batch"]["packets"]
        if system == "hermes":
            in_flight = offered / parts * judging.value(full, "execute_ns") / 1e3
            wanted = round(_FILLS * in_flight)
        return self._point(case, system, part, _of_a_part(load, parts), wanted), parts

    def _point(
        self, case: _Case, system: str, part: dict[str, Any], load: Mapping[str, Any], wanted: int
    ) -> dict[str, Any]:
        """A point of the simulator, of about as many packets as `wanted`."""
        fed = part[system]
        buffer = fed["buffer"]
        least = _LEAST_LONG if self._asked.work.is_long else _LEAST
        slots = units.size("buffer.size", str(buffer["size"])) // units.size("buffer.slot", str(buffer["slot"]))
        if system == "batch":
            fed["results"] = self._asked.work.results
        return {
            "workload": {**case.workload, "kernel": dict(case.kernels[system])},
            "gpu": part["gpu"],
            "system": {system: fed},
            "load": load,
            "arrivals": "poisson",
            "packets": self._packets or min(max(wanted, least), _MOST, slots),
            "runs": 1,
            "seed": self._seed,
        }

    def _run(self, phase: str, points: Sequence[Mapping[str, Any]]) -> list[judging.Outcome]:
        found: dict[int, judging.Outcome] = {}

        def keep(place: int, outcome: str) -> None:
            found[place] = json.loads(outcome)
            self._progress(phase, len(found), len(points), "")

        self._progress(phase, 0, len(points), "")
        _wirespeed.run_simt([json.dumps(point) for point in points], keep, self._threads)
        self.notes += [note for place in range(len(points)) for note in found[place].get("notes", [])]
        return [found[place] for place in range(len(points))]

    def _judge_memory(self, pairs: Sequence[tuple[_Case, str]], full: Sequence[judging.Outcome]) -> None:
        """Raises InputError for a GPU whose memory does not hold tables and packets."""
        faults = _Faults()
        for (case, system), outcome in zip(pairs, full, strict=True):
            has = case.gpu.memory_bytes
            buffer = units.size(f"{system}.buffer.size", str(case.gpu.spec[system]["buffer"]["size"]))
            tables = judging.value(outcome, "table_bytes") if "table_bytes" in outcome else 0.0
            if has is not None and tables + buffer > has:
                faults.add(
                    f"memory = {case.gpu.spec['memory']!r}: tables of {tables / 2**20:,.1f} MiB and "
                    f"{system}.buffer.size of {buffer / 2**20:,.1f} MiB do not fit; give smaller ones, or another GPU"
                )
        faults.tell()


def _of_a_part(load: Mapping[str, Any], parts: float) -> dict[str, Any]:
    """The load of one of so many parts."""
    if "line_share" in load:
        share = load["line_share"]
        return {"line_share": {**share, "share": share["share"] / parts}}
    (kind, rate), *_ = load.items()
    unit, scale = ("Mpps", 1e6) if kind == "packets" else ("Gbps", 1e9)
    return {kind: f"{units.rate(kind, str(rate)).value / scale / parts!r} {unit}"}


def _notes(asked: _Asked, study: _Study) -> list[str]:
    """What there is to know beside the numbers."""
    notes = [*asked.work.notes, *study.notes]
    parts = asked.cases[0].gpu.part()[1]
    if parts > 1:
        notes.append(
            f"one of {parts:g} equal parts of the GPU is simulated, with its share of cores, L2 banks, channels and "
            "link, and all of the L2; rates are those of the whole"
        )
    if any(round(parts) != parts for parts in (case.gpu.part()[1] for case in asked.cases)):
        notes.append("the parts are not quite equal: cores, banks and channels are whole")
    if len({case.gpu.part()[1] for case in asked.cases}) > 1:
        notes.append("parts differ from value to value; --set parts=N takes the same everywhere")
    if "hermes" in asked.systems:
        notes.append("the CPU's own work, and software's in order of commit, take no time here")
    return list(dict.fromkeys(notes))
