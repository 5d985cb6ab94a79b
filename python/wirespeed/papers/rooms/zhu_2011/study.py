"""Points of the room of Hermes: what is run of an application on a system at a load, and means over seeds."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from wirespeed import _wirespeed
from wirespeed import quantities as q
from wirespeed.papers import Part, Request, spread

Told = TypeVar("Told")

PANELS: Final = {"dpi": "DPI", "classifier": "Classifier", "rtl": "RTL", "dec_ttl": "DecTTL"}
OTHERS: Final = {"check_header": "CheckIPHeader", "fragment": "Fragmentation"}
_READINGS: Final = {"letter": "nothing", "serial": "serial", "overlapped": "three_streams"}
# Far beyond what any application carries: the first run of each finds its capacity.
SATURATED_MPPS: Final = 20_000.0


@dataclass(frozen=True, slots=True)
class Setting:
    """A point: an application on a system at a load."""

    application: str
    system: str
    """`hermes` or `batch`."""
    load: float | None = None
    """Mpps; saturated if None."""
    mcw: int = 32
    cores: int = 8
    dcq: bool = True
    batch: int = 0
    times: int = 1
    """How many times as long as others the run is."""
    nic: bool = False
    """Whether the NIC's writes and reads of packets take memory bandwidth; of batches they are on the CPU's memory."""
    packets: int = 0
    """In place of the application's, where it is not 0."""


class Study:
    """Settings of a reading with one seed, and what came of them."""

    def __init__(self, request: Request, seed: int | None = None) -> None:
        self._request = request
        self.reading = request.reading
        self.seed = request.seed if seed is None else seed
        self.parameters = request.parameters("study.toml")
        self.printed = request.paper.printed()
        """Numbers of the paper, by claim."""
        self.preset: dict[str, Any] = json.loads(_wirespeed.gpu_preset("hermes"))
        self._found: dict[Setting, dict[str, Any]] = {}

    def point(self, setting: Setting) -> dict[str, Any]:
        """The specification of a setting."""
        of, shared = self.parameters["applications"][setting.application], self.parameters["workload"]
        gpu = copy.deepcopy(self.preset["gpu"]) | {"mcw": setting.mcw, "cores": setting.cores}
        gpu["memory"]["controller"] = self.parameters["memory"]
        system = copy.deepcopy(self.preset[setting.system])
        if setting.system == "hermes":
            if not setting.dcq:
                del system["dcq"]
            system["buffer"]["nic"] |= setting.nic
        else:
            overlap = _READINGS[self._request.reading]
            system |= {"packets": setting.batch, "overlap": overlap, "results": _results(of["application"])}
        mpps = SATURATED_MPPS if setting.load is None else setting.load
        return {
            "workload": {
                "application": of["application"],
                "kernel": {"registers": of["registers"], "shared": 0},
                "traffic": {"profile": shared["profile"]},
                "packets": of["recorded"],
                "rules": {"count": shared["rules"]},
                "strings": {"count": shared["strings"], "depth": shared["depth"]},
                "fragment": {"mtu": shared["mtu"]},
            },
            "gpu": gpu,
            "system": {setting.system: system},
            "load": {"packets": f"{mpps!r} Mpps"},
            "arrivals": shared["arrivals"],
            "packets": (setting.packets or of["packets"]) * setting.times,
            "runs": 1,
            "seed": self.seed,
        }

    def run(self, settings: Iterable[Setting]) -> None:
        """Simulates what was not yet."""
        wanted = [setting for setting in dict.fromkeys(settings) if setting not in self._found]
        self._found.update(zip(wanted, self._outcomes([self.point(setting) for setting in wanted]), strict=True))

    def _outcomes(self, points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """What points come to, those that are kept from an earlier run not simulated again."""
        keys = [self._request.kept.key(point) for point in points]
        found = {key: kept for key in keys if (kept := self._request.kept.get(key)) is not None}
        wanted = [(key, json.dumps(point)) for key, point in zip(keys, points, strict=True) if key not in found]
        done = 0

        def keep(place: int, outcome: str) -> None:
            nonlocal done
            key = wanted[place][0]
            found[key] = json.loads(outcome)
            self._request.kept.add(key, found[key])
            done += 1
            self._request.progress("points", done, len(wanted), f"reading {self._request.reading}, seed {self.seed}")

        if wanted:
            self._request.progress("points", 0, len(wanted), f"reading {self._request.reading}, seed {self.seed}")
            _wirespeed.run_simt([point for _, point in wanted], keep, self._request.threads)
        return [found[key] for key in keys]

    def chain(self) -> list[dict[str, Any]]:
        """What each of the six tasks takes of one kernel that does all of them, at saturation.

        Its share of the warps' time and more, as `members` of the simulator's outcome has it; on as many packets as
        inspection alone.
        """
        chain = self.parameters["chain"]
        point = self.point(Setting("dpi", "hermes"))
        first, *then = chain["applications"]
        point["workload"] |= {
            "application": first,
            "then": then,
            "kernel": {"registers": chain["registers"], "shared": 0},
        }
        (found,) = self._outcomes([point])
        members: list[dict[str, Any]] = found["members"]
        return members

    def of(self, setting: Setting, measure: str) -> float:
        """A measure of a setting that was run: the mean over its runs."""
        return float(self._found[setting][measure]["value"])

    def rows(self) -> list[dict[str, Any]]:
        """Every outcome as a row, with its setting."""
        rows = []
        for setting, outcome in self._found.items():
            row: dict[str, Any] = {name: getattr(setting, name) for name in Setting.__slots__} | {"seed": self.seed}
            row |= {name: value["value"] for name, value in outcome.items() if name != "notes"}
            rows.append(row)
        return rows


def _results(application: str) -> str:
    return "frames" if application in {"dec_ttl", "fragment", "forward"} else "verdicts"


@dataclass(frozen=True, slots=True)
class LineRates:
    """Settings at line rates of routers, with the NIC's traffic in memory."""

    gbps: Sequence[float]
    judged: float
    """The rate that rows of `expected.csv` judge."""
    hermes: Mapping[tuple[float, str], Sequence[Setting]]
    """By rate and application, then by MCW."""
    batches: Mapping[tuple[float, str, int], Setting]
    """By rate, application and packets a batch."""

    def settings(self) -> list[Setting]:
        """All of them."""
        return [*(setting for of in self.hermes.values() for setting in of), *self.batches.values()]


@dataclass(frozen=True, slots=True)
class Panels:
    """The settings of figure 3 with one seed: by application."""

    study: Study
    capacity: Mapping[str, float]
    """Mpps of Hermes at saturation."""
    burst: Mapping[str, Sequence[Setting]]
    """Hermes by MCW."""
    batches: Mapping[int, Mapping[str, Setting]]
    """The batch system by packets a batch."""
    base: Mapping[str, Setting]
    """The batch system that is judged."""
    without: Mapping[str, Setting]
    """Hermes without the DCQ."""
    sparse: Mapping[str, Setting]
    sparse_batch: Mapping[str, Setting]
    scaled: Mapping[str, Sequence[Setting]]
    """Hermes by cores, in a burst."""
    scaled_sparse: Mapping[str, Sequence[Setting]]
    """The same under sparse traffic."""
    lines: LineRates
    """At line rates of routers."""

    def ratio(self, a: Setting, b: Setting, measure: str) -> float:
        """A measure of a over that of b."""
        return self.study.of(a, measure) / self.study.of(b, measure)

    def carried(self, setting: Setting) -> float:
        """The share of what was offered that was carried."""
        return self.study.of(setting, "throughput_gbps") / self.study.of(setting, "offered_gbps")

    def gain(self, name: str) -> float:
        """Throughput of the best Hermes over the batch system."""
        return max(self.ratio(s, self.base[name], "throughput_gbps") for s in self.burst[name])

    def cut(self, name: str, measure: str, base: Mapping[str, Setting] | None = None) -> float:
        """By how many percent the best Hermes is below the batch system."""
        other = (base or self.base)[name]
        return 100 * (1 - min(self.ratio(s, other, measure) for s in self.burst[name]))


def run_panels(request: Request, seed: int) -> Panels:
    """Runs all settings of figure 3 with a seed."""
    study = Study(request, seed)
    runs = study.parameters["runs"]
    capacity_of = {name: Setting(name, "hermes") for name in (*PANELS, *OTHERS)}
    study.run(capacity_of.values())
    capacity = {name: study.of(setting, "throughput_mpps") for name, setting in capacity_of.items()}
    line = {name: capacity[name] * runs["burst_decttl" if name == "dec_ttl" else "burst"] for name in PANELS}
    sparse_rate = {name: capacity[name] * runs["sparse"] for name in PANELS}
    batches = {n: {name: Setting(name, "batch", line[name], batch=n) for name in PANELS} for n in runs["batches"]}
    times, size = runs["sparse_times"], runs["batch"]
    panels = Panels(
        study=study,
        capacity=capacity,
        burst={name: [Setting(name, "hermes", line[name], mcw=mcw) for mcw in runs["mcw"]] for name in PANELS},
        batches=batches,
        base=batches[size],
        without={name: Setting(name, "hermes", line[name], dcq=False) for name in PANELS},
        sparse={name: Setting(name, "hermes", sparse_rate[name], times=times) for name in PANELS},
        sparse_batch={name: Setting(name, "batch", sparse_rate[name], batch=size, times=times) for name in PANELS},
        scaled={name: [Setting(name, "hermes", line[name], cores=n) for n in runs["cores"]] for name in PANELS},
        scaled_sparse={
            name: [Setting(name, "hermes", sparse_rate[name], cores=n, times=times) for n in runs["cores"]]
            for name in PANELS
        },
        lines=_line_rates(study, capacity_of),
    )
    rows = (*panels.burst.values(), *panels.scaled.values(), *panels.scaled_sparse.values(), panels.lines.settings())
    single = (*batches.values(), panels.without, panels.sparse, panels.sparse_batch)
    study.run([*(s for of in rows for s in of), *(s for of in single for s in of.values())])
    return panels


def _line_rates(study: Study, capacity_of: Mapping[str, Setting]) -> LineRates:
    """Settings at each line rate, in bits of frames, with the NIC's traffic in memory."""
    runs, lines = study.parameters["runs"], study.parameters["line_rates"]
    rates, sizes = lines["gbps"], runs["batches"]
    if study.reading not in lines["readings"]:
        rates, sizes = [lines["judged"]], [runs["batch"]]
    hermes, batches = {}, {}
    for name in PANELS:
        bits = study.of(capacity_of[name], "throughput_gbps") * 1e3 / study.of(capacity_of[name], "throughput_mpps")
        packets = lines["packets"][name]
        for gbps in rates:
            mpps = gbps * 1e3 / bits
            hermes[gbps, name] = [
                Setting(name, "hermes", mpps, mcw=mcw, nic=True, packets=packets) for mcw in runs["mcw"]
            ]
            for size in sizes:
                batches[gbps, name, size] = Setting(name, "batch", mpps, batch=size, packets=packets)
    return LineRates(tuple(rates), lines["judged"], hermes, batches)


class Seeds:
    """Figure 3 with each seed: means over seeds, and their half-widths."""

    def __init__(self, request: Request) -> None:
        n = request.parameters("study.toml")["runs"]["seeds"]
        self.panels = [run_panels(request, request.seed + place) for place in range(n)]
        self.first = self.panels[0]

    def mean(self, of: Callable[[Panels], float]) -> tuple[float, float]:
        """What it is over the seeds, and its half-width."""
        return spread.mean([of(panels) for panels in self.panels])

    def part(self, margin: Callable[[Panels], float], noise_counts_for_it: bool = False) -> Part:
        """A direction by its margin with each seed."""
        return Part(*self.mean(margin), noise_counts_for_it=noise_counts_for_it)

    def parts(self, margin: Callable[[Panels, str], float], names: Iterable[str] = PANELS) -> dict[str, Part]:
        """A direction in each application."""
        return {PANELS[name]: self.part(at(margin, name)) for name in names}

    def words(self, of: Callable[[Panels, str], float], unit: str = "", names: Iterable[str] = PANELS) -> str:
        """A measure of each of the four applications, or of those named, with half-widths."""
        return ", ".join(f"{PANELS[name]} {self.told(at(of, name))}{unit}" for name in names)

    def told(self, of: Callable[[Panels], float]) -> str:
        """A mean with its half-width, in as many digits as that leaves sense for."""
        value, half_width = self.mean(of)
        return f"{q.digits(value)} ± {q.digits(half_width, 2)}"


def at(of: Callable[[Panels, str], Told], name: str) -> Callable[[Panels], Told]:
    """What `of` has of that application."""
    return lambda panels: of(panels, name)
