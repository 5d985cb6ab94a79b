"""Zhu, Deng, Chen: Hermes, an integrated CPU/GPU microarchitecture for IP routing, DAC 2011.

The model is `studies::simt` over `machine::simt`; what is run is in `papers/2011-dac-hermes/study.toml`. Line rates
follow from a first run of each application at saturation: the paper's are those of traces that it does not show.
Every point is run with several seeds, which draw rules, strings, packets and arrivals anew; half-widths are over seeds.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import altair as alt

from wirespeed import _wirespeed, cost
from wirespeed import quantities as q
from wirespeed.papers import Figure, Measured, Outcome, Paper, Part, Request, spread

PANELS: Final = {"dpi": "DPI", "classifier": "Classifier", "rtl": "RTL", "dec_ttl": "DecTTL"}
OTHERS: Final = {"check_header": "CheckIPHeader", "fragment": "Fragmentation"}
_READINGS: Final = {"letter": "nothing", "serial": "serial", "overlapped": "three_streams"}
# Far beyond what any application carries: the first run of each finds its capacity.
SATURATED_MPPS: Final = 20_000.0
REAL_GPU: Final = "real-gpu.csv"
# Less added delay than this share nobody sees in a figure: some differ in the eighth digit in every seed.
LEAST: Final = 0.001


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


class Study:
    """Settings of a reading with one seed, and what came of them."""

    def __init__(self, request: Request, seed: int | None = None) -> None:
        self._request = request
        self.seed = request.seed if seed is None else seed
        self.parameters = request.parameters("study.toml")
        self.preset: dict[str, Any] = json.loads(_wirespeed.gpu_preset("hermes"))
        self._found: dict[Setting, dict[str, Any]] = {}

    def point(self, setting: Setting) -> dict[str, Any]:
        """The specification of a setting."""
        of, shared = self.parameters["applications"][setting.application], self.parameters["workload"]
        gpu = copy.deepcopy(self.preset["gpu"]) | {"mcw": setting.mcw, "cores": setting.cores}
        system = copy.deepcopy(self.preset[setting.system])
        if setting.system == "hermes":
            if not setting.dcq:
                del system["dcq"]
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
            "packets": of["packets"] * setting.times,
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
    """Hermes by cores."""

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


def _panels(request: Request, seed: int) -> Panels:
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
    )
    rows = (*panels.burst.values(), *panels.scaled.values())
    single = (*batches.values(), panels.without, panels.sparse, panels.sparse_batch)
    study.run([*(s for of in rows for s in of), *(s for of in single for s in of.values())])
    return panels


class Seeds:
    """Figure 3 with each seed: means over seeds, and their half-widths."""

    def __init__(self, request: Request) -> None:
        n = request.parameters("study.toml")["runs"]["seeds"]
        self.panels = [_panels(request, request.seed + place) for place in range(n)]
        self.first = self.panels[0]

    def mean(self, of: Callable[[Panels], float]) -> tuple[float, float]:
        """What it is over the seeds, and its half-width."""
        return spread.mean([of(panels) for panels in self.panels])

    def part(self, margin: Callable[[Panels], float], noise_counts_for_it: bool = False) -> Part:
        """A direction by its margin with each seed."""
        return Part(*self.mean(margin), noise_counts_for_it=noise_counts_for_it)

    def parts(self, margin: Callable[[Panels, str], float], names: Iterable[str] = PANELS) -> dict[str, Part]:
        """A direction in each application."""
        return {PANELS[name]: self.part(_at(margin, name)) for name in names}

    def words(self, of: Callable[[Panels, str], float], unit: str = "") -> str:
        """A measure of each of the four applications, with half-widths."""
        return ", ".join(f"{words} {self.told(_at(of, name))}{unit}" for name, words in PANELS.items())

    def told(self, of: Callable[[Panels], float]) -> str:
        """A mean with its half-width, in as many digits as that leaves sense for."""
        value, half_width = self.mean(of)
        return f"{q.digits(value)} ± {q.digits(half_width, 2)}"


def _at(of: Callable[[Panels, str], float], name: str) -> Callable[[Panels], float]:
    return lambda panels: of(panels, name)


def measure(request: Request) -> Outcome:
    """Runs all panels of figure 3, judges the claims and draws the panels."""
    seeds = Seeds(request)
    out = _burst(seeds) | _by_mcw(seeds) | _dcq(seeds) | _sparse(seeds) | _scaling(seeds) | _shares(seeds)
    out["storage"] = Measured(cost.hermes(seeds.first.study.preset["gpu"]["cores"]).all / 8 / 1024)
    tables = {"factors": _factors(seeds), "applications": _applications(seeds), "tasks": _tasks(seeds)}
    notes = [
        *("; ".join(f"{name} {cell}" for name, cell in row.items()) for row in tables["factors"]),
        "all six tasks in one kernel, share of the warps' time: "
        + ", ".join(f"{row['task']} {row['share of time, %']} %" for row in tables["tasks"]),
        _real_gpu(request.paper),
    ]
    rows = [row for panels in seeds.panels for row in panels.study.rows()]
    return Outcome(out, rows, _figures(seeds), notes, tables=tables)


def _burst(seeds: Seeds) -> dict[str, Measured]:
    """The factors of the abstract, and whether Hermes is better everywhere."""
    best = max(PANELS, key=lambda name: seeds.mean(_at(Panels.gain, name))[0])
    gain = seeds.mean(_at(Panels.gain, best))

    def simple(panels: Panels, name: str) -> float:
        return min(panels.cut(n, "delay_ns") for n in ("rtl", "dec_ttl")) - panels.cut(name, "delay_ns")

    sizes = seeds.first.study.parameters["runs"]
    out = {
        "throughput-gain": Measured(
            *gain,
            holds=Part(gain[0] - 1, gain[1]),
            note=f"batches of {sizes['batch']}: {seeds.words(Panels.gain)}",
        ),
        "hermes-faster": Measured(holds=seeds.parts(lambda p, name: p.gain(name) - 1)),
        "delay-most": Measured(holds=seeds.parts(simple, ("dpi", "classifier"))),
    }
    return out | {"delay-cut": _cut(seeds, "delay_ns"), "variance-cut": _cut(seeds, "delay_iqr_ns")}


def _cut(seeds: Seeds, measure: str) -> Measured:
    """By how many percent a measure of the best Hermes is lower, in the mean of four applications."""
    return Measured(
        *seeds.mean(lambda p: _mean(p.cut(name, measure) for name in PANELS)),
        holds=seeds.part(lambda p: min(p.cut(name, measure) for name in PANELS)),
        note=seeds.words(lambda p, name: p.cut(name, measure), " %"),
    )


def _by_mcw(seeds: Seeds) -> dict[str, Measured]:
    """Delay and its variance by the number of concurrent warps."""

    def delays(panels: Panels, name: str) -> list[float]:
        return [panels.study.of(s, "delay_ns") for s in panels.burst[name]]

    def worst(panels: Panels, name: str) -> float:
        first, *others = delays(panels, name)
        return first / max(others) - 1

    def alike(panels: Panels, name: str) -> float:
        _, *others = delays(panels, name)
        return 1.1 - max(others) / min(others)

    trend = {}
    for name in PANELS:
        systems = [_of_burst(name, place) for place in range(len(seeds.first.burst[name]))] + [_of_base(name)]
        for a, b in pairwise(sorted(systems, key=lambda of: seeds.mean(_measured(of, "delay_ns"))[0])):
            # Systems whose delays are within 2 % have no order.
            if seeds.mean(_over(b, a, "delay_ns"))[0] > 1.02:
                words = f"{PANELS[name]} {_label(a(seeds.first))} to {_label(b(seeds.first))}"
                trend[words] = seeds.part(_over(b, a, "delay_iqr_ns", 1.0), noise_counts_for_it=True)
    limit = seeds.mean(_measured(_of_burst("classifier", -1), "mcw"))[0]
    return {
        "hermes8-worst": Measured(holds=seeds.parts(worst)),
        "others-alike": Measured(holds=seeds.parts(alike, ("classifier", "rtl"))),
        "variance-like-delay": Measured(holds=trend),
        "classifier-registers": Measured(holds=Part(32 - limit), note=f"{limit:g} warps fit"),
    }


def _of_burst(name: str, place: int) -> Callable[[Panels], Setting]:
    return lambda panels: panels.burst[name][place]


def _of_base(name: str) -> Callable[[Panels], Setting]:
    return lambda panels: panels.base[name]


def _of_cores(name: str, place: int) -> Callable[[Panels], Setting]:
    return lambda panels: panels.scaled[name][place]


def _measured(of: Callable[[Panels], Setting], measure: str) -> Callable[[Panels], float]:
    return lambda panels: panels.study.of(of(panels), measure)


def _over(
    a: Callable[[Panels], Setting], b: Callable[[Panels], Setting], measure: str, less: float = 0.0
) -> Callable[[Panels], float]:
    return lambda panels: panels.ratio(a(panels), b(panels), measure) - less


def _dcq(seeds: Seeds) -> dict[str, Measured]:
    """What the DCQ costs, with the most concurrent warps."""

    def added(panels: Panels, name: str) -> float:
        return _added(panels, name, "delay_ns")

    def most(panels: Panels, name: str) -> float:
        return min(added(panels, n) for n in ("dpi", "dec_ttl")) - added(panels, name)

    rate = {name: seeds.mean(_at(lambda p, n: _added(p, n, "throughput_gbps"), name)) for name in PANELS}
    return {
        "dcq-throughput": Measured(
            holds={PANELS[name]: Part(0.01 - abs(value), wide) for name, (value, wide) in rate.items()}
        ),
        "dcq-delay": Measured(
            holds=seeds.parts(lambda p, name: added(p, name) - LEAST),
            note="added: " + seeds.words(lambda p, name: 100 * added(p, name), " %"),
        ),
        "dcq-most": Measured(holds=seeds.parts(most, ("classifier", "rtl"))),
    }


def _added(panels: Panels, name: str, measure: str) -> float:
    """What the DCQ adds to a measure, with the most concurrent warps: a share of it."""
    return panels.ratio(panels.burst[name][-1], panels.without[name], measure) - 1


def _sparse(seeds: Seeds) -> dict[str, Measured]:
    """What of sparse traffic is delivered."""

    def hermes(panels: Panels, name: str) -> float:
        return 100 * panels.carried(panels.sparse[name])

    def batch(panels: Panels, name: str) -> float:
        return 100 * panels.carried(panels.sparse_batch[name])

    return {
        id: Measured(holds=seeds.parts(margin), note=seeds.words(of, " %"))
        for id, of, margin in (
            ("sparse-hermes", hermes, lambda p, name: hermes(p, name) - 97),
            ("sparse-batch", batch, lambda p, name: 97 - batch(p, name)),
        )
    }


def _scaling(seeds: Seeds) -> dict[str, Measured]:
    """Throughput by cores."""
    cores = seeds.first.study.parameters["runs"]["cores"]
    steps = {}
    for name in ("dpi", "classifier", "rtl"):
        for place, (few, many) in enumerate(pairwise(cores)):
            value, wide = seeds.mean(_over(_of_cores(name, place + 1), _of_cores(name, place), "throughput_gbps"))
            steps[f"{PANELS[name]} {few} to {many} ({value:.2f}x)"] = Part(value - 0.7 * many / few, wide)
    share, wide = seeds.mean(lambda p: p.carried(p.scaled["dec_ttl"][-1]))
    return {
        "scaling": Measured(holds=steps),
        "scaling-decttl": Measured(holds=Part(share - 0.95, wide), note=f"{100 * share:.1f} % of the line rate"),
    }


def _shares(seeds: Seeds) -> dict[str, Measured]:
    """The time of the three light tasks among all six, as single kernels at saturation."""
    light = ("dec_ttl", *OTHERS)
    share, wide = seeds.mean(
        lambda p: 100 * sum(1 / p.capacity[n] for n in light) / sum(1 / rate for rate in p.capacity.values())
    )
    note = ", ".join(
        f"{words} {seeds.told(_at(lambda p, n: 1e3 / p.capacity[n], name))} ns"
        for name, words in (PANELS | OTHERS).items()
    )
    return {"time-share": Measured(share, wide, holds=Part(50 - share, wide), note=f"{note} a packet")}


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def _label(setting: Setting) -> str:
    return f"Hermes-{setting.mcw}" if setting.system == "hermes" else "CPU/GPU"


def _factors(seeds: Seeds) -> list[dict[str, Any]]:
    """The factors of the abstract, by batch size."""

    def gain(n: int) -> Callable[[Panels], float]:
        return lambda p: max(
            p.ratio(s, p.batches[n][name], "throughput_gbps") for name in PANELS for s in p.burst[name]
        )

    def cut(n: int, measure: str) -> Callable[[Panels], float]:
        return lambda p: -_mean(p.cut(name, measure, p.batches[n]) for name in PANELS)

    return [
        {
            "batch": n,
            "throughput up to": f"{seeds.told(gain(n))} x",
            "mean delay": f"{seeds.told(cut(n, 'delay_ns'))} %",
            "interquartile range": f"{seeds.told(cut(n, 'delay_iqr_ns'))} %",
        }
        for n in seeds.first.batches
    ]


def _applications(seeds: Seeds) -> list[dict[str, Any]]:
    """The factors by application, with the batch size that is judged."""
    return [
        {
            "application": words,
            "throughput": f"{seeds.told(_at(Panels.gain, name))} x",
            "mean delay": f"{seeds.told(_at(lambda p, n: -p.cut(n, 'delay_ns'), name))} %",
            "interquartile range": f"{seeds.told(_at(lambda p, n: -p.cut(n, 'delay_iqr_ns'), name))} %",
            "offered, Gbps": seeds.told(_measured(_of_base(name), "offered_gbps")),
        }
        for name, words in PANELS.items()
    ]


def _tasks(seeds: Seeds) -> list[dict[str, Any]]:
    """All six tasks in one kernel: what each takes."""
    chains = [panels.study.chain() for panels in seeds.panels]
    rows = []
    for place, member in enumerate(chains[0]):
        share = spread.mean([100 * chain[place]["time_share"]["value"] for chain in chains])
        instructions = spread.mean([chain[place]["instructions_per_warp"]["value"] for chain in chains])
        rows.append(
            {
                "task": member["name"],
                "share of time, %": f"{q.digits(share[0])} ± {q.digits(share[1], 2)}",
                "warp instructions for 32 packets": f"{instructions[0]:,.0f} ± {instructions[1]:,.0f}",
            }
        )
    return rows


def _real_gpu(paper: Paper) -> str:
    """What `wirespeed router bench` measured on a GPU, if somebody has put it into the room; else that nobody has."""
    try:
        rows = paper.file(REAL_GPU).splitlines()
    except FileNotFoundError:
        return (
            f"on a real GPU: not measured (papers/{paper.id}/{REAL_GPU} is where `wirespeed router bench` would stand)"
        )
    return f"on a real GPU: {len(rows) - 1} rows in papers/{paper.id}/{REAL_GPU}"


def _figures(seeds: Seeds) -> list[Figure]:
    def bars(name: str, caption: str, measure: str, unit: float = 1.0) -> Figure:
        rows = [
            {"application": words, "by": _label(of(seeds.first)), "y": seeds.mean(_measured(of, measure))[0] * unit}
            for n, words in PANELS.items()
            for of in (_of_base(n), *(_of_burst(n, place) for place in range(len(seeds.first.burst[n]))))
        ]
        return _bars(name, caption, rows)

    def row(name: str, by: str, of: Callable[[Panels], float]) -> dict[str, Any]:
        return {"application": PANELS[name], "by": by, "y": seeds.mean(of)[0]}

    def sparse(panels: Panels, name: str) -> float:
        return panels.study.of(panels.sparse[name], "throughput_gbps")

    def sparse_batch(panels: Panels, name: str) -> float:
        return panels.study.of(panels.sparse_batch[name], "throughput_gbps")

    def arriving(panels: Panels, name: str) -> float:
        return panels.study.of(panels.sparse[name], "offered_gbps")

    delivered = {"arrival rate": arriving, "CPU/GPU": sparse_batch, "Hermes-32": sparse}
    added = [row(name, "DCQ", _at(lambda p, n: 100 * _added(p, n, "delay_ns"), name)) for name in PANELS]
    rates = [row(name, by, _at(of, name)) for name in PANELS for by, of in delivered.items()]
    scaled = [
        row(name, f"{setting.cores} cores", _measured(_of_cores(name, place), "throughput_gbps"))
        for name in PANELS
        for place, setting in enumerate(seeds.first.scaled[name])
    ]
    return [
        bars("fig3a", "Throughput in a burst, Gbps", "throughput_gbps"),
        bars("fig3b", "Mean delay in a burst, us", "delay_ns", 1e-3),
        bars("fig3c", "Interquartile range of the delay, us", "delay_iqr_ns", 1e-3),
        _bars("fig3d", "Mean delay that the DCQ adds, %", added),
        _bars("fig3e", "Throughput of sparse traffic, Gbps", rates),
        _bars("fig3f", "Throughput by shader cores, Gbps", scaled),
    ]


def _bars(name: str, caption: str, rows: Sequence[Mapping[str, Any]]) -> Figure:
    order = list(dict.fromkeys(str(row["by"]) for row in rows))
    chart = (
        alt.Chart(alt.InlineData(values=list(rows)), width=90, height=220)
        .mark_bar()
        .encode(
            x=alt.X("by:N", sort=order, title=None),
            y=alt.Y("y:Q", title=caption),
            color=alt.Color("by:N", sort=order, legend=None),
            column=alt.Column("application:N", sort=list(PANELS.values()), title=None),
        )
        .resolve_scale(y="independent")
    )
    return Figure(name, caption, chart)


PAPER = Paper(
    id="2011-dac-hermes",
    title="Hermes: an integrated CPU/GPU microarchitecture for IP routing",
    authors="Y. Zhu, Y. Deng, Y. Chen",
    venue="DAC",
    entry="inproceedings",
    year=2011,
    doi="10.1145/2024724.2024953",
    readings={
        "letter": "a batch's waiting, transfer and computation add up: the next is collected once it is back",
        "serial": "the next batch is collected while one is copied and processed",
        "overlapped": "three streams: copies in both directions, kernels and collecting overlap",
    },
    measure=measure,
)
