"""Zhu, Deng, Chen: Hermes, an integrated CPU/GPU microarchitecture for IP routing, DAC 2011.

The model is `studies::simt` over `machine::simt`; what is run is in `papers/2011-dac-hermes/study.toml`. Line rates
follow from a first run of each application at saturation: the paper's are those of traces that it does not show. Line
rates of routers, with what the NIC takes of memory, are beside them (`line_rates`).
Every point is run with several seeds, which draw rules, strings, packets and arrivals anew; half-widths are over seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import altair as alt

from wirespeed import cost
from wirespeed import quantities as q
from wirespeed.papers import Figure, Measured, Outcome, Paper, Part, Request, spread
from wirespeed.papers.rooms.zhu_2011 import line_rates
from wirespeed.papers.rooms.zhu_2011.study import OTHERS, PANELS, SATURATED_MPPS, Panels, Seeds, Setting, Study, at

__all__ = ["PAPER", "SATURATED_MPPS", "Seeds", "Setting", "Study"]

REAL_GPU: Final = "real-gpu.csv"
# Less added delay than this share nobody sees in a figure: some differ in the eighth digit in every seed.
LEAST: Final = 0.001


def measure(request: Request) -> Outcome:
    """Runs all panels of figure 3, judges the claims and draws the panels."""
    seeds = Seeds(request)
    out = _burst(seeds) | _by_mcw(seeds) | _dcq(seeds) | _sparse(seeds) | _scaling(seeds) | _shares(seeds)
    out |= line_rates.measured(seeds)
    out["storage"] = Measured(cost.hermes(seeds.first.study.preset["gpu"]["cores"]).all / 8 / 1024)
    tables = {
        "factors": _factors(seeds),
        "applications": _applications(seeds),
        "tasks": _tasks(seeds),
        "scaling": _scaled(seeds),
        **line_rates.tables(seeds),
    }
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
    best = max(PANELS, key=lambda name: seeds.mean(at(Panels.gain, name))[0])
    gain = seeds.mean(at(Panels.gain, best))

    def simple(panels: Panels, name: str) -> float:
        return min(panels.cut(n, "delay_ns") for n in ("rtl", "dec_ttl")) - panels.cut(name, "delay_ns")

    sizes = seeds.first.study.parameters["runs"]
    out = {
        "throughput-gain": Measured(
            *gain,
            holds=Part(gain[0] - 1, gain[1]),
            note=f"batches of {sizes['batch']}: {seeds.words(Panels.gain)}",
        ),
        "hermes-faster": Measured(
            holds=seeds.parts(lambda p, name: p.gain(name) - 1), note=f"throughput: {seeds.words(Panels.gain, ' x')}"
        ),
        "delay-most": Measured(
            holds=seeds.parts(simple, ("dpi", "classifier")),
            note="the lesser of RTL and DecTTL is cut by so many points more: "
            + seeds.words(simple, names=("dpi", "classifier")),
        ),
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
        "hermes8-worst": Measured(
            holds=seeds.parts(worst),
            note="above the next: " + seeds.words(lambda p, name: 100 * worst(p, name), " %"),
        ),
        "others-alike": Measured(
            holds=seeds.parts(alike, ("classifier", "rtl")),
            note="the slowest over the fastest: "
            + seeds.words(lambda p, name: 1.1 - alike(p, name), names=("classifier", "rtl")),
        ),
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

    rate = {name: seeds.mean(at(lambda p, n: _added(p, n, "throughput_gbps"), name)) for name in PANELS}
    return {
        "dcq-throughput": Measured(
            holds={PANELS[name]: Part(0.01 - abs(value), wide) for name, (value, wide) in rate.items()},
            note="changed by: " + seeds.words(lambda p, name: 100 * _added(p, name, "throughput_gbps"), " %"),
        ),
        "dcq-delay": Measured(
            holds=seeds.parts(lambda p, name: added(p, name) - LEAST),
            note="added: " + seeds.words(lambda p, name: 100 * added(p, name), " %"),
        ),
        "dcq-most": Measured(
            holds=seeds.parts(most, ("classifier", "rtl")),
            note="the lesser of DPI and DecTTL less it, in points: "
            + seeds.words(lambda p, name: 100 * most(p, name), names=("classifier", "rtl")),
        ),
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
            steps[f"{PANELS[name]} {few} to {many} ({value:.2f} ± {q.digits(wide, 2)} x)"] = Part(
                value - 0.7 * many / few, wide
            )
    share, wide = seeds.mean(lambda p: p.carried(p.scaled["dec_ttl"][-1]))
    words = f"{100 * share:.1f} ± {q.digits(100 * wide, 2)} % of the line rate"
    return {"scaling": Measured(holds=steps), "scaling-decttl": Measured(holds=Part(share - 0.95, wide), note=words)}


def _scaled(seeds: Seeds) -> list[dict[str, Any]]:
    """Throughput and mean delay by cores, in a burst and under sparse traffic: figure 3(f) has both."""

    def row(name: str, traffic: str, of: Callable[[Panels], Sequence[Setting]]) -> dict[str, Any]:
        def cell(place: int, measure: str, unit: float = 1.0) -> str:
            return seeds.told(lambda p: p.study.of(of(p)[place], measure) * unit)

        cores = seeds.first.study.parameters["runs"]["cores"]
        return (
            {"application": PANELS[name], "traffic": traffic}
            | {f"{n} cores, Gbps": cell(place, "throughput_gbps") for place, n in enumerate(cores)}
            | {f"{n} cores, mean delay, us": cell(place, "delay_ns", 1e-3) for place, n in enumerate(cores)}
        )

    return [
        row(name, traffic, at(of, name))
        for name in PANELS
        for traffic, of in {"burst": _in_burst, "sparse": _in_sparse}.items()
    ]


def _in_burst(panels: Panels, name: str) -> Sequence[Setting]:
    return panels.scaled[name]


def _in_sparse(panels: Panels, name: str) -> Sequence[Setting]:
    return panels.scaled_sparse[name]


def _carried_by(of: Callable[[Panels, str], Sequence[Setting]], name: str, place: int) -> Callable[[Panels], float]:
    return lambda panels: panels.study.of(of(panels, name)[place], "throughput_gbps")


def _shares(seeds: Seeds) -> dict[str, Measured]:
    """The time of the three light tasks among all six, as single kernels at saturation."""
    light = ("dec_ttl", *OTHERS)
    share, wide = seeds.mean(
        lambda p: 100 * sum(1 / p.capacity[n] for n in light) / sum(1 / rate for rate in p.capacity.values())
    )
    note = ", ".join(
        f"{words} {seeds.told(at(lambda p, n: 1e3 / p.capacity[n], name))} ns"
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
            "throughput": f"{seeds.told(at(Panels.gain, name))} x",
            "mean delay": f"{seeds.told(at(lambda p, n: -p.cut(n, 'delay_ns'), name))} %",
            "interquartile range": f"{seeds.told(at(lambda p, n: -p.cut(n, 'delay_iqr_ns'), name))} %",
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
    added = [row(name, "DCQ", at(lambda p, n: 100 * _added(p, n, "delay_ns"), name)) for name in PANELS]
    rates = [row(name, by, at(of, name)) for name in PANELS for by, of in delivered.items()]
    scaled = [
        row(name, f"{setting.cores} cores{words}", _carried_by(of, name, k))
        for name in PANELS
        for words, of in {"": _in_burst, ", sparse": _in_sparse}.items()
        for k, setting in enumerate(of(seeds.first, name))
    ]
    return [
        bars("fig3a", "Throughput in a burst, Gbps", "throughput_gbps"),
        bars("fig3b", "Mean delay in a burst, us", "delay_ns", 1e-3),
        bars("fig3c", "Interquartile range of the delay, us", "delay_iqr_ns", 1e-3),
        _bars("fig3d", "Mean delay that the DCQ adds, %", added),
        _bars("fig3e", "Throughput of sparse traffic, Gbps", rates),
        _bars("fig3f", "Throughput by shader cores, in a burst and sparse, Gbps", scaled),
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
