"""Duarte and Wong, "Cache-based Memory Copy Hardware Accelerator for Multi-core Systems", IEEE TC 2010."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, Final, TypeAlias

from wirespeed import copies, cost, queueing
from wirespeed.papers import Figure, Measured, Outcome, Paper, Part, Request, figures
from wirespeed.papers.claim import NEAR

ACCELERATED: Final = {"mr2": 0.005, "fe": 0.01}
ANALYTIC: Final = (
    "fcp-single",
    "fcp-multi-md1",
    "fcp-multi-mm1",
    "exponential-baseline",
    "exponential-accelerated",
    "cast-outs",
    "trailing-edge",
    "cpi",
    "iterations",
    "hro1",
    "fig5",
    "fig8",
)
SIMULATED: Final = "simulated"
"""The reading whose equations get what the simulation returns."""
CASES: Final = {"fcp-single": (False, False), "fcp-multi-md1": (True, False), "fcp-multi-mm1": (True, True)}
"""Whether there are several CPUs, and whether service is exponential."""
FIGURES: Final = {
    "fig5": ("FCP decrease over mr2, single CPU", "fcp-single"),
    "fig7": ("FCP decrease over mr2, 3 CPUs, M/D/1", "fcp-multi-md1"),
    "fig8": ("FCP decrease over mr2, 3 CPUs, M/M/1", "fcp-multi-mm1"),
}
MOST_ITERATIONS: Final = 10


def right_way(percent: float) -> Measured:
    """A change in percent whose direction is right if it is above 0."""
    return Measured(percent, holds=Part(percent))


@dataclass(frozen=True, slots=True)
class Rates:
    """What equations 1 to 16 are told of software, and of the accelerator.

    `most_mr2` is the highest miss rate of L2 that is looked at with the accelerator: other L1s have some of L1's.
    """

    software: Mapping[str, float]
    accelerated: Mapping[str, float]
    most_mr2: float

    @property
    def high(self) -> dict[str, float]:
        """The accelerator where L2 misses most."""
        return {**self.accelerated, "mr2": self.most_mr2}


TABLE_6: Final = Rates({}, ACCELERATED, 0.03)
MOST_FE: Final = 0.4
"""Section 5.2 looks at no larger one."""
HRO1: Final = 0.2
"""Table 6; the simulation has one CPU."""


class Model:
    """Equations 1 to 16 under a reading."""

    def __init__(self, reading: str, rates: Rates = TABLE_6) -> None:
        self._reading = "as-printed" if reading == SIMULATED else reading
        self.rates = rates

    def solve(self, case: str, **parameters: float) -> dict[str, Any]:
        """CPI, FCP and the rest, of software's rates and table 6 but for `parameters`."""
        multi, exponential = CASES[case]
        asked = {**self.rates.software, **parameters}
        return queueing.memory(self._reading, multi=multi, exponential=exponential, **asked)

    def decrease(self, case: str, **parameters: float) -> float:
        """How much lower FCP is than the baseline's, in percent."""
        return 100 * (1 - float(self.solve(case, **parameters)["fcp"]) / float(self.solve(case)["fcp"]))

    def rise(self, case: str, **parameters: float) -> float:
        """How much `parameters` raise FCP, in percent."""
        return 100 * (float(self.solve(case, **parameters)["fcp"]) / float(self.solve(case)["fcp"]) - 1)

    def iterations(self, case: str, tolerance: float = 1e-3) -> int:
        """Steps of the paper's plain iteration, CPI to FCP to CPI, from a CPI without queueing until it stands still.

        What saturates a server on the way counts as never.
        """
        cpi = 1.0 + float(self.solve(case, cpi=1e9)["fcp"])
        for step in range(1, 1000):
            try:
                after = 1.0 + float(self.solve(case, cpi=cpi)["fcp"])
            except ValueError:
                return 1000
            if abs(after / cpi - 1) < tolerance:
                return step
            cpi = after
        return 1000


def analytic(request: Request) -> Outcome:
    """Section 5.2."""
    model = Model(request.reading, rates_of(request))
    accelerated = model.rates.accelerated
    decreases = {case: model.decrease(case, **accelerated) for case in CASES}
    measured = {case: right_way(value) for case, value in decreases.items()}

    def exponential(**more: float) -> float:
        fixed, random = (float(model.solve(case, **more)["fcp"]) for case in ("fcp-multi-md1", "fcp-multi-mm1"))
        return 100 * (random / fixed - 1)

    measured["exponential-baseline"] = right_way(exponential())
    measured["exponential-accelerated"] = right_way(exponential(**accelerated))
    # Percentage points under the fitted reading, a share of the value under the printed one.
    points = request.reading == "fitted"
    measured["cast-outs"] = right_way(model.rise("fcp-single", co=0.4 if points else 0.24))
    measured["trailing-edge"] = right_way(model.rise("fcp-single", te=0.3 if points else 0.12))
    cpis = [float(model.solve("fcp-multi-md1", **with_it)["cpi"]) for with_it in ({}, accelerated)]
    measured["cpi"] = right_way(100 * (1 - cpis[1] / cpis[0]))
    steps = {case: model.iterations(case) for case in CASES}
    measured["iterations"] = Measured(
        holds={case: Part(MOST_ITERATIONS + 1 - n) for case, n in steps.items()},
        note="plain iteration takes " + ", ".join(str(n) if n < 1000 else "for ever" for n in steps.values()),
    )
    measured["fig5"] = Measured(
        holds={
            "lower where misses of L2 and FE are few": Part(decreases["fcp-single"]),
            "higher where both are many": Part(-model.decrease("fcp-single", **(model.rates.high | {"fe": MOST_FE}))),
        }
    )
    measured["fig8"] = Measured(holds=Part(exponential(**model.rates.high) - exponential(**accelerated)))
    over_hro1, curves, drawn = drawings(request, model, decreases)
    falls = [p for p in over_hro1 if p["case"] == "fcp-multi-md1"]
    measured["hro1"] = Measured(
        holds={f"{a['hro1']:.3g} to {b['hro1']:.3g}": Part(a["fcp"] - b["fcp"]) for a, b in pairwise(falls)}
    )
    more_cpus, table = larger_systems(request, model)
    return Outcome(measured | more_cpus, [*curves, *over_hro1], drawn, tables={"cpus": table})


def drawings(
    request: Request, model: Model, decreases: Mapping[str, float]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[Figure]]:
    """Figures 5 to 8: their points, and how they are drawn; nothing where HRO1 and L2's misses are more than all."""
    parameters = request.parameters("experiment.toml")["figures"]
    over_hro1 = [
        {"figure": "fig6", "hro1": hro1, "case": case, "fcp": float(model.solve(case, hro1=hro1)["fcp"])}
        for hro1 in parameters["hro1"]
        for case in ("fcp-multi-md1", "fcp-multi-mm1")
    ]
    curves = [
        {
            "figure": name,
            "mr2": mr2,
            "fe": f"FE {100 * fe:g} %",
            "decrease": model.decrease(case, **{**model.rates.accelerated, "mr2": mr2, "fe": fe}),
        }
        for name, (_, case) in FIGURES.items()
        for mr2 in parameters["mr2"]
        for fe in parameters["fe"]
        if mr2 <= model.rates.most_mr2
    ]
    printed, best = request.paper.printed(), {"mr2": ACCELERATED["mr2"], "fe": f"FE {100 * ACCELERATED['fe']:g} %"}
    drawn = [
        Figure(
            name,
            caption,
            figures.lines(
                [p for p in curves if p["figure"] == name],
                x="mr2",
                y="decrease",
                by="fe",
                x_title="miss rate of L2 (mr2), share",
                y_title="FCP decrease, %",
                printed=[best | {"decrease": printed[case]}],
            ),
        )
        for name, (caption, case) in FIGURES.items()
        if case in decreases
    ]
    titles = "HRO1, share", "FCP, cycles an instruction"
    falling = figures.lines(over_hro1, x="hro1", y="fcp", by="case", x_title=titles[0], y_title=titles[1])
    return over_hro1, curves, [*drawn, Figure("fig6", "FCP over HRO1, 3 CPUs", falling)]


def larger_systems(request: Request, model: Model) -> tuple[dict[str, Measured], list[dict[str, Any]]]:
    """More CPUs on the bus than three."""
    cpus = request.parameters("experiment.toml")["figures"]["cpus"]
    usual, *more = cpus
    fcp = {
        n: [float(model.solve("fcp-multi-md1", cpus=n, **with_it)["fcp"]) for with_it in ({}, model.rates.accelerated)]
        for n in cpus
    }
    gains = {n: 1 - table / software for n, (software, table) in fcp.items()}
    rises = {
        f"{words}, {a} to {b} CPUs": Part(fcp[b][place] - fcp[a][place])
        for place, words in enumerate(("without", "with"))
        for a, b in pairwise(cpus)
    }
    kept = {f"{n} CPUs": Part(gains[n] - gains[usual] / NEAR if gains[usual] > 0 else -1.0) for n in more}
    words = ", ".join(f"{100 * gain:.1f} % with {n}" for n, gain in gains.items())
    table = [
        {
            "CPUs": n,
            "FCP without": f"{without:.2f}",
            "FCP with": f"{with_it:.2f}",
            "decrease": f"{100 * gains[n]:.1f} %",
        }
        for n, (without, with_it) in fcp.items()
    ]
    return {"cpus-rise": Measured(holds=rises), "cpus-help": Measured(holds=kept, note=f"FCP falls by {words}")}, table


def rates_of(request: Request) -> Rates:
    """What the equations are told: table 6, or what the simulation returns."""
    if request.reading != SIMULATED:
        return TABLE_6
    bench = Bench(request)
    software, table = (returned(bench.receive(method, reads=False)) for method in ("loads", "table"))
    # Without the accelerator there is no FE (equation 7).
    del software["fe"]
    return Rates(software, table, table["mr1"] * (1 - HRO1))


def returned(found: Mapping[str, Any]) -> dict[str, float]:
    """Miss rates and FE per instruction, as equations 1 to 16 want them; FE as footnote 3 has it.

    A line that the accelerator copies asks L2 as a miss of L1 does, and holds the CPU until it is there.
    """
    counts, instructions = found["counts"], found["instructions"]
    misses = counts["loads"] - counts["load_hits"] + counts["stores"] - counts["store_hits"]
    return {
        "mr1": (misses + counts["lines_by_table"]) / instructions,
        "mr2": counts["fills"] / instructions,
        "fe": counts["touched"] / instructions,
    }


def chain(found: Receivers) -> tuple[dict[str, Measured], list[dict[str, Any]]]:
    """The paper's own method: what the simulation returns goes into the equations, beside the simulated times."""
    model = Model(SIMULATED)
    measured: dict[str, Measured] = {}
    table: list[dict[str, Any]] = []
    fewer: dict[str, Part] = {}
    for reads in (False, True):
        words = "with reads" if reads else "without reads"
        rates = {method: returned(found[method, reads]) for method in ("loads", "table")}
        del rates["loads"]["fe"]
        answers = {m: [model.solve(case, **rates[m]) for case in ("fcp-single", "fcp-multi-md1")] for m in rates}
        cpi_single = {m: float(answers[m][0]["cpi"]) for m in answers}
        fewer[words] = Part(rates["loads"]["mr2"] - rates["table"]["mr2"])
        fcp, cpi = ([float(answers[m][n][of]) for m in answers] for n, of in ((0, "fcp"), (1, "cpi")))
        if not reads:
            measured["fcp-chain"] = right_way(100 * (1 - fcp[1] / fcp[0]))
            measured["cpi-chain"] = right_way(100 * (1 - cpi[1] / cpi[0]))
            for name in ("mr1", "mr2"):
                measured[f"{name}-simulated"] = right_way(100 * rates["loads"][name])
        for m, by in (("loads", "loads and stores"), ("table", "copy table")):
            here = found[m, reads]
            table.append(
                {
                    "receiver": words,
                    "by": by,
                    "mr1, %": f"{100 * rates[m]['mr1']:.2f}",
                    "mr2, %": f"{100 * rates[m]['mr2']:.3f}",
                    "FE, %": f"{100 * rates[m].get('fe', 0.0):.4f}",
                    "CPI of equations": f"{cpi_single[m]:.2f}",
                    "CPI simulated": f"{here['clocks'] / here['instructions']:.2f}",
                    "clocks a packet of equations": f"{cpi_single[m] * here['instructions'] / here['items']:,.0f}",
                    "simulated": f"{here['clocks_per_item']:,.0f}",
                }
            )
    measured["mr2-falls"] = Measured(holds=fewer)
    return measured, table


def bounds(bench: Bench, found: Receivers, printed: Mapping[str, float]) -> list[dict[str, Any]]:
    """What the paper's hit rates allow under table 2's costs, whoever serves the misses of L1; each store goes to L2.

    Shares of loads and stores are those of our software, since the paper prints none.
    """
    table5 = bench.parameters["table5"]
    ghz, l1, l2, memory = (float(table5["costs"][of]) for of in ("ghz", "l1", "l2", "memory"))
    rows: list[dict[str, Any]] = []
    times = []
    for method, words, instructions, ms in zip(
        ("loads", "table"), ("sw", "hw"), table5["without_reads"], table5["ms"], strict=True
    ):
        here = found[method, False]
        misses = {kind: 1 - printed[f"{kind}-hit-{words}"] / 100 for kind in ("read", "write")}
        loads, stores = (here["counts"][kind] / here["instructions"] for kind in ("loads", "stores"))
        missed = loads * misses["read"] + stores * misses["write"]
        most = 1 + l1 * (loads + stores) + l2 * stores + missed * (l2 + memory)
        least = most - missed * memory
        times.append([cpi * instructions for cpi in (least, most)])
        rows.append(
            {
                "by": "loads and stores" if method == "loads" else "copy table",
                "CPI if L2 has all": f"{least:.1f}",
                "CPI if memory serves all misses of L1": f"{most:.1f}",
                "the paper's time as CPI": f"{ms * ghz * 1e6 / instructions:.1f}",
                "ours": f"{here['clocks'] / here['instructions']:.1f}",
            }
        )
    paper = table5["ms"][0] / table5["ms"][1]
    ours = ratio(found["loads", False], found["table", False])
    speedups = [software / accelerator for software, accelerator in zip(*times, strict=True)]
    cells = (*(f"{value:.2f} x" for value in speedups), f"{paper:.2f} x", f"{ours:.2f} x")
    return [*rows, dict(zip(rows[0], ("speed-up", *cells), strict=True))]


def as_read(parameters: Mapping[str, Any], reading: str) -> dict[str, Any]:
    """What is run under a reading: `simulated` has an L1 and buffers of its own."""
    if reading != SIMULATED:
        return dict(parameters)
    own = parameters["simulated"]
    l1 = {**parameters["machine"]["l1"], **own["l1"]}
    return {
        **parameters,
        "machine": {**parameters["machine"], "l1": l1},
        "receive": {**parameters["receive"], "nic_slots": own["nic_slots"]},
    }


class Bench:
    """Section 5.1: software and accelerator on the same workload, each run once."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.parameters = as_read(request.parameters("experiment.toml"), request.reading)

    def run(
        self,
        workload: dict[str, Any],
        method: str | dict[str, Any],
        costs: dict[str, Any] | None = None,
        machine: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """What came of it; the table is there only if it is used."""
        name = method if isinstance(method, str) else method["by"]
        machine = {**self.parameters["machine"], **(machine or {}), "table": name == "table"}
        experiment = (workload, method, machine, {**self.parameters["costs"], **(costs or {})})
        key = self._request.kept.key(experiment)
        found = self._request.kept.get(key)
        if found is None:
            found = copies.run(workload, method, machine=machine, costs=experiment[3])
            self._request.kept.add(key, found)
        return dict(found)

    def receive(self, method: str | dict[str, Any] = "loads", **settings: Any) -> dict[str, Any]:
        """The TCP/IP receiver."""
        return self.run({"kind": "receive", **self.parameters["receive"], **settings}, method)

    def sensitivity(self) -> Iterator[dict[str, Any]]:
        """Speed-ups over all switches."""
        switches = self.parameters["sensitivity"]
        names = ("copies", "nic_data", "write_buffer", "write_back")
        choices = list(product(switches["l1"].items(), *(switches[name] for name in names)))
        for done, ((words, l1), n_copies, nic_data, write_buffer, write_back) in enumerate(choices, 1):
            self._request.progress("sensitivity", done, len(choices), f"NIC data {nic_data}")
            costs = {"write_buffer": write_buffer, "write_back": write_back}
            row: dict[str, Any] = {
                "figure": "sensitivity",
                "l1": words,
                "copies": n_copies,
                "nic_data": nic_data,
                **costs,
            }
            kinds: dict[str, dict[str, Any]] = {"speedup": {"reads": False}, "speedup_reads": {"reads": True}}
            for instructions in switches["session_instructions"]:
                short = {"reads": False, "session_instructions": instructions, **self.parameters["short"]}
                kinds[f"speedup_short_{instructions}"] = short
            for name, more in kinds.items():
                workload = {
                    "kind": "receive",
                    **self.parameters["receive"],
                    "nic_slots": l1["nic_slots"],
                    "copies": n_copies,
                    "nic_data": nic_data,
                    "packets": {"packets": switches["packets"]},
                    **more,
                }
                machine = {"l1": {**self.parameters["machine"]["l1"], "writes": l1["writes"]}}
                clocks = [self.run(workload, m, costs, machine)["clocks"] for m in ("loads", "table")]
                row[name] = clocks[0] / clocks[1]
            yield row

    def rivals(self) -> Iterator[dict[str, Any]]:
        """How much less time each method takes than loads and stores, over the switches of the sensitivity table."""
        switches = self.parameters["sensitivity"]
        usual = self.parameters["receive"]["nic_data"]
        for nic_data, reads in product([name for name in switches["nic_data"] if name != "uncached"], (False, True)):
            settings = {"nic_data": nic_data, "reads": reads}
            software = self.receive("loads", **settings)
            for name, method in copies.METHODS.items():
                if name == copies.COMMON:
                    continue
                reduction = 100 * (1 - 1 / ratio(software, self.receive(dict(method), **settings)))
                as_in_paper = nic_data == usual and not reads
                row = {"figure": "rivals", "method": name, **settings, "as_in_paper": as_in_paper}
                yield {**row, "reduction_pct": reduction}

    def first_levels(self, printed: Mapping[str, float]) -> Iterator[dict[str, Any]]:
        """L1s that the text allows, and where buffers lie in them: speed-ups, and hit rates beside the paper's."""
        switches = self.parameters["first_levels"]
        for line, writes, place in product(switches["line"], switches["writes"], switches["buffers"]):
            row: dict[str, Any] = {"L1 line": f"{line} B", "stores": writes, "buffers": place}
            machine = {"l1": {**self.parameters["machine"]["l1"], "line": line, "writes": writes}}
            farthest = 0.0
            for words, suffix, reads in (("without reads", "", False), ("with reads", "-reads", True)):
                lie = switches["buffers"][place]
                workload = {"kind": "receive", **self.parameters["receive"], "reads": reads, **lie}
                found = {m: self.run(workload, m, machine=machine) for m in ("loads", "table")}
                row[f"speed-up {words}"] = f"{ratio(found['loads'], found['table']):.2f}"
                hits = {(kind, m): 100 * found[m][f"{kind}_hit"] for kind in ("read", "write") for m in found}
                row[f"hits {words}, %"] = ", ".join(f"{hit:.1f}" for hit in hits.values())
                names = {"loads": "sw", "table": "hw"}
                away = [abs(hit - printed[f"{kind}-hit-{names[m]}{suffix}"]) for (kind, m), hit in hits.items()]
                farthest = max(farthest, *away)
            yield {**row, "farthest from the paper, points": f"{farthest:.1f}"}

    def messages(self) -> list[dict[str, Any]]:
        """Messages from each CPU to the next: clocks by loads and stores over clocks by the table."""
        parameters = self.parameters["messages"]
        rows = []
        for cpus, size in product(parameters["cpus"], parameters["bytes"]):
            workload = {"kind": "messages", "rounds": parameters["rounds"], "bytes": size}
            software, table = (self.run(workload, method, machine={"cpus": cpus}) for method in ("loads", "table"))
            cpi = [found["clocks"] / found["instructions"] for found in (software, table)]
            row = {"figure": "messages", "cpus": cpus, "bytes": size, "speedup": ratio(software, table, "clocks")}
            rows.append({**row, "cpi_decrease_pct": 100 * (1 - cpi[1] / cpi[0])})
        return rows


def ratio(software: dict[str, Any], hardware: dict[str, Any], of: str = "clocks_per_item") -> float:
    """Software over hardware."""
    return float(software[of]) / float(hardware[of])


def simulated(request: Request) -> Outcome:
    """Section 5.1. Workloads draw nothing, so half-widths are 0."""
    bench = Bench(request)
    sensitivity = list(bench.sensitivity())
    request.progress("receiver", 0, 1, "")
    measured, found = receiver(bench, sensitivity)
    measured |= sessions(bench, found) | payloads(bench) | hit_rates(found, request.paper.printed())
    stream_measured, rates = stream(bench)
    rivals, messages = list(bench.rivals()), bench.messages()
    measured |= stream_measured | beside(rivals) | passed(messages)
    chained, chain_table = chain(found)
    measured |= chained
    tables = {
        "sensitivity": [sensitivity_row(row) for row in sensitivity],
        "first-levels": list(bench.first_levels(request.paper.printed())),
        "chain": chain_table,
        "bounds": bounds(bench, found, request.paper.printed()),
        "rivals": rival_rows(rivals),
        "messages": message_rows(messages),
    }
    return Outcome(measured, [*sensitivity, *table3(rates), *rivals, *messages], tables=tables)


def table3(copied_mb_s: Mapping[str, float]) -> list[dict[str, Any]]:
    """Rates as STREAM has them: it counts what is read and what is written."""
    return [{"figure": "table3", "kernel": name, "mb_s": 2 * rate} for name, rate in copied_mb_s.items()]


Receivers: TypeAlias = Mapping[tuple[str, bool], dict[str, Any]]
"""The receiver by method and by whether the application reads."""


def receiver(bench: Bench, sensitivity: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Measured], Receivers]:
    """Speed-ups, cycles a packet and instructions, with and without reads."""
    spread = {
        (name, uncached): [p[name] for p in sensitivity if (p["nic_data"] == "uncached") is uncached]
        for name in ("speedup", "speedup_reads")
        for uncached in (False, True)
    }

    def note(name: str) -> str:
        usual, uncached = spread[name, False], spread[name, True]
        return (
            f"{min(usual):.1f} to {max(usual):.1f} over the switches of the sensitivity table, "
            f"{min(uncached):.1f} to {max(uncached):.1f} with uncached NIC data"
        )

    found = {
        (method, reads): bench.receive(method, reads=reads) for method in ("loads", "table") for reads in (False, True)
    }
    measured = {}
    for suffix, reads, name in (("", False, "speedup"), ("-reads", True, "speedup_reads")):
        software, table = found["loads", reads], found["table", reads]
        faster = ratio(software, table)
        measured[f"speedup{suffix}"] = Measured(faster, holds=Part(faster - 1), note=note(name))
        fewer = 100 * (1 / ratio(software, table, "instructions") - 1)
        measured[f"instructions{suffix}"] = Measured(fewer, holds=Part(-fewer))
        for words, of in (("sw", software), ("hw", table)):
            measured[f"cycles-{words}{suffix}"] = Measured(float(of["clocks_per_item"]))
        touched = 100 * table["counts"]["touched"] / table["instructions"]
        measured[f"fe-simulated{suffix}"] = Measured(touched, holds=Part(touched))
    return measured, found


def sessions(bench: Bench, found: Receivers) -> dict[str, Measured]:
    """The receiver with a smaller file."""
    short = {method: bench.receive(method, **bench.parameters["short"]) for method in ("loads", "table")}
    slower = {m: short[m]["clocks_per_item"] / found[m, False]["clocks_per_item"] for m in short}
    faster = ratio(short["loads"], short["table"])
    return {
        "speedup-short": Measured(faster, holds=Part(faster - ratio(found["loads", False], found["table", False]))),
        "short-sessions": Measured(
            holds={
                "software is slower": Part(slower["loads"] - 1.05),
                "the accelerator is not": Part(1.05 - slower["table"]),
            },
            note=f"software {slower['loads']:.2f} times, accelerator {slower['table']:.2f} times the clocks a packet",
        ),
    }


def payloads(bench: Bench) -> dict[str, Measured]:
    """Speed-ups of packets of one size beside that of the size that the paper compares with."""
    of = bench.parameters["payloads"]
    packets = {"packets": bench.parameters["sensitivity"]["packets"], "share": 1.0}

    def speedup(size: int) -> float:
        software, table = (
            bench.receive(method, reads=False, packets={**packets, "payload": size}) for method in ("loads", "table")
        )
        return ratio(software, table)

    faster = {size: speedup(size) for size in (of["usual"], *of["others"])}
    usual = faster[of["usual"]]
    return {
        "payload": Measured(
            holds={f"{n} B": Part(of["within"] - abs(faster[n] / usual - 1)) for n in of["others"]},
            note=", ".join(f"{n} B: {value:.2f}" for n, value in sorted(faster.items())),
        )
    }


NEAR_POINTS: Final = 3.0
"""How far L1 hit rates may be from table 5's."""


def hit_rates(found: Receivers, printed: Mapping[str, float]) -> dict[str, Measured]:
    """L1, and the table, of table 5."""
    measured: dict[str, Measured] = {}
    rises: dict[str, Part] = {}
    away: dict[str, float] = {}
    for kind in ("read", "write"):
        for suffix, reads in (("", False), ("-reads", True)):
            hits = {m: 100 * found[m, reads][f"{kind}_hit"] for m in ("loads", "table")}
            for words, method in (("sw", "loads"), ("hw", "table")):
                id = f"{kind}-hit-{words}{suffix}"
                measured[id] = Measured(hits[method])
                away[id] = abs(hits[method] - printed[id])
            words = "with reads" if reads else "without reads"
            rises[f"{kind} hits {words}"] = Part(hits["table"] - hits["loads"])
    measured["hit-rates"] = Measured(holds=rises)
    within = {id: Part(NEAR_POINTS - points) for id, points in away.items()}
    measured["hits-within"] = Measured(round(max(away.values()), 1), holds=within)
    none, some = (found["table", reads]["counts"]["table_hits"] for reads in (False, True))
    measured["index-hits-none"] = Measured(float(none))
    measured["index-hits"] = Measured(float(some), holds=Part(some))
    return measured


def stream(bench: Bench) -> tuple[dict[str, Measured], dict[str, float]]:
    """Tables 3 and 4, and copied MB/s by kernel."""
    copy = bench.parameters["stream"]
    work = {"kind": "stream", **{k: copy[k] for k in ("bytes", "rounds", "arrays")}}
    rates = {name: bench.run(work, {"by": "loads", **words})["copied_mb_s"] for name, words in copy["kernels"].items()}
    by_table = bench.run(work, "table")
    glibc, accelerator = rates["glibc memcpy"], by_table["copied_mb_s"]
    warm = [bench.run({**work, "arrays": 1}, m)["clocks_per_item"] for m in ("loads", "table")]
    touched = by_table["counts"]["touched"]
    measured = {
        "stream": Measured(
            accelerator / glibc,
            holds=Part(accelerator / glibc - 1),
            note=f"cold data; {warm[0] / warm[1]:.0f} times where both arrays stay cached",
        ),
        "stream-order": Measured(
            holds={f"{n} < glibc": Part(glibc / r - 1) for n, r in rates.items() if n.startswith("copy")}
            | {"glibc < accelerator": Part(accelerator / glibc - 1)}
        ),
        "stream-unrolled": Measured(
            holds={f"{n} < copy 32": Part(rates["copy 32"] / rates[n] - 1) for n in ("copy 32x2", "copy 32x4")},
            note=", ".join(f"{n} {rate:.0f} MB/s" for n, rate in rates.items() if n.startswith("copy 32")),
        ),
        "stream-writes": Measured(holds=few_writes(touched, by_table["copies"], bench.parameters["table4"])),
    }
    return measured, {**rates, "accelerator": accelerator}


def few_writes(touched: int, copies: int, table4: Mapping[str, int]) -> dict[str, Part]:
    """That writes to sources and targets are few beside copies, and as few as the paper has, within a factor of two."""
    share, paper = touched / copies, table4["writes"] / table4["copies"]
    return {f"{100 * share:.2g} % for {100 * paper:.2g} %": Part(0.01 - share, factor=share / paper)}


def beside(rivals: Sequence[Mapping[str, Any]]) -> dict[str, Measured]:
    """The table beside engines in the memory controller, under the paper's settings."""
    reduction = {row["method"]: row["reduction_pct"] for row in rivals if row["as_in_paper"]}
    table = reduction["copy table"]
    words = ", ".join(f"{name} {value:.1f} %" for name, value in reduction.items())
    return {
        "beside-sync": Measured(table, holds=Part(table), note=words),
        "rival-sync": right_way(reduction["engine, synchronous"]),
        "rival-async": right_way(reduction["engine, asynchronous"]),
        "beside-order": Measured(
            holds={name: Part(table - value) for name, value in reduction.items() if name.startswith("engine")}
        ),
    }


def passed(messages: Sequence[Mapping[str, Any]]) -> dict[str, Measured]:
    """Messages of three CPUs, as in figure 1."""
    few = min(row["cpus"] for row in messages)
    of = {row["bytes"]: row for row in messages if row["cpus"] == few}
    best = max(row["cpi_decrease_pct"] for row in of.values())
    words = ", ".join(f"{n:,} B {row['cpi_decrease_pct']:.0f} %" for n, row in of.items())
    return {
        "messages": Measured(holds={f"{n:,} B": Part(row["speedup"] - 1) for n, row in of.items()}),
        "messages-cpi": Measured(
            best, holds=Part(best), note=f"{words}: a CPU has fewer instructions, each of which takes longer"
        ),
    }


def sensitivity_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the sensitivity table as it is read."""
    kinds = {"speedup": "without reads", "speedup_reads": "with reads"}
    kinds |= {
        name: f"short, set-up {int(name.rsplit('_', 1)[1]):,}" for name in row if name.startswith("speedup_short")
    }
    switches = {
        "l1": "L1",
        "copies": "copies",
        "nic_data": "NIC data",
        "write_buffer": "write buffer",
        "write_back": "write-back",
    }
    return {words: row[name] for name, words in switches.items()} | {
        words: f"{row[name]:.2f}" for name, words in kinds.items()
    }


def rival_rows(rivals: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row a method, a column for where the NIC's data are and whether they are read."""
    rows: dict[str, dict[str, Any]] = {}
    for row in rivals:
        column = f"{row['nic_data']}, {'reads' if row['reads'] else 'no reads'}"
        rows.setdefault(row["method"], {"method": row["method"]})[column] = f"{row['reduction_pct']:.1f} %"
    return list(rows.values())


def message_rows(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row a size, a column for each number of CPUs."""
    rows: dict[int, dict[str, Any]] = {}
    for row in messages:
        rows.setdefault(row["bytes"], {"bytes": f"{row['bytes']:,}"})[f"{row['cpus']} CPUs"] = f"{row['speedup']:.1f}"
    return list(rows.values())


def hardware(request: Request) -> Outcome:
    """Section 3.3, and footnote 3."""
    size = 1 << 20

    def overhead(line: int) -> float:
        return 100 * cost.copy_table(size, line, 4).all / cost.cache(size, line, 4).all

    short = {
        line: 100 * cost.table_of_section_1_1(size, line, 4).all / cost.cache(size, line, 4).all for line in (16, 128)
    }
    # One entry for all three, and for area and energy (`cost.entry`).
    measured = {
        f"area-line-{line}": Measured(
            overhead(line), note=f"{short[line]:.1f} % with the entry of section 1.1, which has no tag of the source"
        )
        for line in (16, 128)
    }
    grow = {
        line: 100 * (cost.copy_table(size, line, 32).all / cost.copy_table(size, line, 4).all - 1)
        for line in cost.LINES
    }
    measured["area-ways"] = Measured(max(grow.values()))
    table5 = request.parameters("experiment.toml")["table5"]
    writes = [a + b for a, b in zip(table5["source_writes"], table5["target_writes"], strict=True)]
    for id, n, instructions in zip(("fe-no-reads", "fe-reads"), writes, table5["instructions"], strict=True):
        measured[id] = Measured(100 * n / instructions, note="arithmetic on table 5, not a simulation")
    return Outcome(measured, [{"figure": "area", **row} for row in cost.document(size)["copy_table"]])


def measure(request: Request) -> Outcome:
    """All parts that are asked for."""
    parts = [analytic(request), hardware(request)]
    if any(id not in {**parts[0].measured, **parts[1].measured} for id in request.claims):
        parts.append(simulated(request))
    return Outcome(
        {id: found for part in parts for id, found in part.measured.items()},
        [json.loads(json.dumps(point)) for part in parts for point in part.points],
        [figure for part in parts for figure in part.figures],
        tables={name: rows for part in parts for name, rows in part.tables.items()},
        notes=[f"in-sample: the fitted reading was chosen on the {len(CASES) + 5} numbers of section 5.2"]
        if request.reading == "fitted"
        else [],
    )


PAPER = Paper(
    id="2010-tc-duarte",
    title="Cache-based Memory Copy Hardware Accelerator for Multi-core Systems",
    authors="F. Duarte, S. Wong",
    venue="IEEE Transactions on Computers",
    entry="article",
    year=2010,
    doi="10.1109/TC.2010.41",
    readings={
        "as-printed": "equations 1 to 16 and table 6 as they stand; CO and TE + 20 % are shares of their values",
        "fitted": "chosen among many because it comes nearest to section 5.2, so it predicts none of it: mr1 20 %, two "
        "clocks a cycle, one queue for all transfers of the data bus, + 20 % as percentage points",
        SIMULATED: "equations as printed with the rates that the simulation returns, of an L1 that takes a line for a "
        "store and of buffers that share its sets one time in 16; chosen by who knew the paper's hit rates",
    },
    measure=measure,
)
