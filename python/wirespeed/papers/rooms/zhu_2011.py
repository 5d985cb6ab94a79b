"""Zhu, Deng, Chen: Hermes, an integrated CPU/GPU microarchitecture for IP routing, DAC 2011.

The model is `sim::simt` over `machine::simt`; what is run is in `papers/2011-dac-hermes/study.toml`. Line rates
follow from a first run of each application at saturation: the paper's are those of traces that it does not show.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import altair as alt

from wirespeed import _wirespeed, cost
from wirespeed.papers import Figure, Measured, Outcome, Paper, Request

PANELS: Final = {"dpi": "DPI", "classifier": "Classifier", "rtl": "RTL", "dec_ttl": "DecTTL"}
OTHERS: Final = {"check_header": "CheckIPHeader", "fragment": "Fragmentation"}
_READINGS: Final = {"letter": "nothing", "serial": "serial", "overlapped": "three_streams"}
# Far beyond what any application carries: the first run of each finds its capacity.
_SATURATED_MPPS: Final = 20_000.0
REAL_GPU: Final = "real-gpu.csv"


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
    """Settings of a reading, and what came of them."""

    def __init__(self, request: Request) -> None:
        self._request = request
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
        mpps = _SATURATED_MPPS if setting.load is None else setting.load
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
            "runs": self.parameters["runs"]["runs"],
            "seed": self._request.seed,
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
            self._request.progress("points", done, len(wanted), f"reading {self._request.reading}")

        if wanted:
            self._request.progress("points", 0, len(wanted), f"reading {self._request.reading}")
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
            row: dict[str, Any] = {name: getattr(setting, name) for name in Setting.__slots__}
            for name, value in outcome.items():
                if name != "notes":
                    row[name], row[f"{name}_half_width"] = value["value"], value["half_width"]
            rows.append(row)
        return rows


def _results(application: str) -> str:
    return "frames" if application in {"dec_ttl", "fragment", "forward"} else "verdicts"


def measure(request: Request) -> Outcome:
    """Runs all panels of figure 3, judges the claims and draws the panels."""
    study = Study(request)
    runs = study.parameters["runs"]
    capacity_of = {name: Setting(name, "hermes") for name in (*PANELS, *OTHERS)}
    study.run(capacity_of.values())
    capacity = {name: study.of(setting, "throughput_mpps") for name, setting in capacity_of.items()}
    line = {name: capacity[name] * runs["burst_decttl" if name == "dec_ttl" else "burst"] for name in PANELS}
    sparse_rate = {name: capacity[name] * runs["sparse"] for name in PANELS}

    burst = {name: [Setting(name, "hermes", line[name], mcw=mcw) for mcw in runs["mcw"]] for name in PANELS}
    batches = {n: {name: Setting(name, "batch", line[name], batch=n) for name in PANELS} for n in runs["batches"]}
    base = batches[runs["batch"]]
    without = {name: Setting(name, "hermes", line[name], dcq=False) for name in PANELS}
    times, size = runs["sparse_times"], runs["batch"]
    sparse = {name: Setting(name, "hermes", sparse_rate[name], times=times) for name in PANELS}
    sparse_batch = {name: Setting(name, "batch", sparse_rate[name], batch=size, times=times) for name in PANELS}
    scaled = {name: [Setting(name, "hermes", line[name], cores=n) for n in runs["cores"]] for name in PANELS}
    study.run(
        [
            *(s for of in burst.values() for s in of),
            *(s for of in batches.values() for s in of.values()),
            *without.values(),
            *sparse.values(),
            *sparse_batch.values(),
            *(s for of in scaled.values() for s in of),
        ]
    )
    out: dict[str, Measured] = {}
    _burst(out, study, burst, batches, runs["batch"])
    _dcq(out, study, {name: of[-1] for name, of in burst.items()}, without)
    _sparse(out, study, sparse, sparse_batch)
    _scaling(out, study, scaled)
    _shares(out, capacity)
    out["storage"] = Measured(cost.hermes(study.preset["gpu"]["cores"]).all / 8 / 1024)
    figures = [
        _bars("fig3a", "Throughput in a burst, Gbps", _rows(study, burst, base, "throughput_gbps", 1.0)),
        _bars("fig3b", "Mean delay in a burst, us", _rows(study, burst, base, "delay_ns", 1e-3)),
        _bars("fig3c", "Interquartile range of the delay, us", _rows(study, burst, base, "delay_iqr_ns", 1e-3)),
        _bars(
            "fig3d",
            "Mean delay with the DCQ over that without",
            [
                {"application": PANELS[n], "by": "ratio", "y": _ratio(study, burst[n][-1], without[n], "delay_ns")}
                for n in PANELS
            ],
        ),
        _bars("fig3e", "Throughput of sparse traffic, Gbps", _sparse_rows(study, sparse, sparse_batch)),
        _bars(
            "fig3f",
            "Throughput by shader cores, Gbps",
            [
                {"application": PANELS[n], "by": f"{s.cores} cores", "y": study.of(s, "throughput_gbps")}
                for n in PANELS
                for s in scaled[n]
            ],
        ),
    ]
    notes = [*_factors(study, burst, batches), _chained(study.chain()), _real_gpu(request.paper)]
    return Outcome(out, study.rows(), figures, notes)


def _chained(members: list[dict[str, Any]]) -> str:
    def told(of: dict[str, Any]) -> str:
        return f"{of['name']} {100 * of['time_share']['value']:.1f} % ({of['instructions_per_warp']['value']:,.0f})"

    return "all six tasks in one kernel: share of the warps' time, and warp instructions for 32 packets: " + ", ".join(
        told(of) for of in members
    )


def _ratio(study: Study, a: Setting, b: Setting, measure: str) -> float:
    return study.of(a, measure) / study.of(b, measure)


def _gains(
    study: Study, burst: Mapping[str, Sequence[Setting]], base: Mapping[str, Setting]
) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """By application: throughput of the best Hermes over the batch system; the cuts of delay and its range, %."""
    more, sooner, steadier = {}, {}, {}
    for name, settings in burst.items():
        more[name] = max(_ratio(study, s, base[name], "throughput_gbps") for s in settings)
        sooner[name] = 100 * (1 - min(_ratio(study, s, base[name], "delay_ns") for s in settings))
        steadier[name] = 100 * (1 - min(_ratio(study, s, base[name], "delay_iqr_ns") for s in settings))
    return more, sooner, steadier


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def _burst(
    out: dict[str, Measured],
    study: Study,
    burst: Mapping[str, Sequence[Setting]],
    batches: Mapping[int, Mapping[str, Setting]],
    batch: int,
) -> None:
    base = batches[batch]
    more, sooner, steadier = _gains(study, burst, base)
    best = max(more, key=lambda name: more[name])
    note = f"batches of {batch}: {_each(more)}"
    out["throughput-gain"] = Measured(more[best], holds=more[best] > 1, note=note)
    out["delay-cut"] = Measured(_mean(sooner.values()), holds=min(sooner.values()) > 0, note=_each(sooner))
    out["variance-cut"] = Measured(_mean(steadier.values()), holds=min(steadier.values()) > 0, note=_each(steadier))
    out["hermes-faster"] = Measured(holds={PANELS[n]: gain > 1 for n, gain in more.items()})
    simple = min(sooner["rtl"], sooner["dec_ttl"])
    out["delay-most"] = Measured(holds={PANELS[n]: simple > sooner[n] for n in ("dpi", "classifier")})
    worst, alike, trend = {}, {}, {}
    for name, settings in burst.items():
        delays = [study.of(s, "delay_ns") for s in settings]
        worst[PANELS[name]] = delays[0] > max(delays[1:])
        if name in {"classifier", "rtl"}:
            alike[PANELS[name]] = max(delays[1:]) <= 1.1 * min(delays[1:])
        systems = [*settings, base[name]]
        # Systems whose delays are within 2 % have no order.
        for a, b in pairwise(sorted(systems, key=lambda s: study.of(s, "delay_ns"))):
            if _ratio(study, b, a, "delay_ns") > 1.02:
                held = study.of(b, "delay_iqr_ns") >= study.of(a, "delay_iqr_ns")
                trend[f"{PANELS[name]} {_label(a)} to {_label(b)}"] = held
    out["hermes8-worst"] = Measured(holds=worst)
    out["others-alike"] = Measured(holds=alike)
    out["variance-like-delay"] = Measured(holds=trend)
    limit = study.of(burst["classifier"][-1], "mcw")
    out["classifier-registers"] = Measured(holds=limit < 32, note=f"{limit:g} warps fit")


def _each(values: Mapping[str, float]) -> str:
    return ", ".join(f"{PANELS[name]} {value:.1f}" for name, value in values.items())


def _label(setting: Setting) -> str:
    return f"Hermes-{setting.mcw}" if setting.system == "hermes" else "CPU/GPU"


def _dcq(
    out: dict[str, Measured], study: Study, with_it: Mapping[str, Setting], without: Mapping[str, Setting]
) -> None:
    rate = {n: _ratio(study, with_it[n], without[n], "throughput_gbps") for n in PANELS}
    delay = {n: _ratio(study, with_it[n], without[n], "delay_ns") for n in PANELS}
    out["dcq-throughput"] = Measured(holds={PANELS[n]: abs(r - 1) <= 0.01 for n, r in rate.items()})
    ratios = ", ".join(f"{PANELS[n]} {r:.3f}" for n, r in delay.items())
    out["dcq-delay"] = Measured(holds={PANELS[n]: r > 1 for n, r in delay.items()}, note=ratios)
    least = min(delay["dpi"], delay["dec_ttl"])
    out["dcq-most"] = Measured(holds={PANELS[n]: least > delay[n] for n in ("classifier", "rtl")})


def _sparse(
    out: dict[str, Measured], study: Study, hermes: Mapping[str, Setting], batch: Mapping[str, Setting]
) -> None:
    def delivered(setting: Setting) -> float:
        return study.of(setting, "throughput_gbps") / study.of(setting, "offered_gbps")

    for id, settings, delivers in (("sparse-hermes", hermes, True), ("sparse-batch", batch, False)):
        shares = {n: delivered(s) for n, s in settings.items()}
        note = ", ".join(f"{PANELS[n]} {100 * share:.1f} %" for n, share in shares.items())
        out[id] = Measured(holds={PANELS[n]: (share >= 0.97) is delivers for n, share in shares.items()}, note=note)


def _scaling(out: dict[str, Measured], study: Study, scaled: Mapping[str, Sequence[Setting]]) -> None:
    steps = {}
    for name in ("dpi", "classifier", "rtl"):
        for a, b in pairwise(scaled[name]):
            gain = _ratio(study, b, a, "throughput_gbps")
            steps[f"{PANELS[name]} {a.cores} to {b.cores} ({gain:.2f}x)"] = gain >= 0.7 * b.cores / a.cores
    out["scaling"] = Measured(holds=steps)
    last = scaled["dec_ttl"][-1]
    share = study.of(last, "throughput_gbps") / study.of(last, "offered_gbps")
    out["scaling-decttl"] = Measured(holds=share >= 0.95, note=f"{100 * share:.1f} % of the line rate")


def _shares(out: dict[str, Measured], capacity: Mapping[str, float]) -> None:
    time = {name: 1 / rate for name, rate in capacity.items()}
    heavy = sum(time[name] for name in ("dpi", "classifier", "rtl"))
    share = 100 * heavy / sum(time.values())
    note = ", ".join(f"{(PANELS | OTHERS)[n]} {1e3 * t:.2f} ns" for n, t in time.items()) + " a packet"
    out["time-share"] = Measured(share, holds=share > 50, note=note)


def _factors(
    study: Study, burst: Mapping[str, Sequence[Setting]], batches: Mapping[int, Mapping[str, Setting]]
) -> list[str]:
    notes = []
    for n, base in batches.items():
        more, sooner, steadier = _gains(study, burst, base)
        notes.append(
            f"batches of {n}: throughput up to {max(more.values()):.2f}x, mean delay {-_mean(sooner.values()):.1f} %, "
            f"interquartile range {-_mean(steadier.values()):.1f} %"
        )
    return notes


def _real_gpu(paper: Paper) -> str:
    """What `wirespeed router bench` measured on a GPU, if somebody has put it into the room; else that nobody has."""
    try:
        rows = paper.file(REAL_GPU).splitlines()
    except FileNotFoundError:
        return (
            f"on a real GPU: not measured (papers/{paper.id}/{REAL_GPU} is where `wirespeed router bench` would stand)"
        )
    return f"on a real GPU: {len(rows) - 1} rows in papers/{paper.id}/{REAL_GPU}"


def _rows(
    study: Study, burst: Mapping[str, Sequence[Setting]], base: Mapping[str, Setting], measure: str, unit: float
) -> list[dict[str, Any]]:
    return [
        {"application": PANELS[n], "by": _label(s), "y": study.of(s, measure) * unit}
        for n in PANELS
        for s in (base[n], *burst[n])
    ]


def _sparse_rows(study: Study, hermes: Mapping[str, Setting], batch: Mapping[str, Setting]) -> list[dict[str, Any]]:
    rows = []
    for n, words in PANELS.items():
        rows.append({"application": words, "by": "arrival rate", "y": study.of(hermes[n], "offered_gbps")})
        rows += [
            {"application": words, "by": _label(s), "y": study.of(s, "throughput_gbps")} for s in (batch[n], hermes[n])
        ]
    return rows


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
    year=2011,
    doi="10.1145/2024724.2024953",
    readings={
        "letter": "a batch's waiting, transfer and computation add up: the next is collected once it is back",
        "serial": "the next batch is collected while one is copied and processed",
        "overlapped": "three streams: copies in both directions, kernels and collecting overlap",
    },
    measure=measure,
)
