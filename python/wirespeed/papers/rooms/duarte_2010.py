"""Duarte and Wong, "Cache-based Memory Copy Hardware Accelerator for Multi-core Systems", IEEE TC 2010."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any, Final

from wirespeed import copies, cost, queueing
from wirespeed.papers import Figure, Measured, Outcome, Paper, Request, figures

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
    return Measured(percent, holds=percent > 0)


class Model:
    """Equations 1 to 16 under a reading."""

    def __init__(self, reading: str) -> None:
        self._reading = reading

    def solve(self, case: str, **parameters: float) -> dict[str, Any]:
        """CPI, FCP and the rest, of table 6 but for `parameters`."""
        multi, exponential = CASES[case]
        return queueing.memory(self._reading, multi=multi, exponential=exponential, **parameters)

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
    model = Model(request.reading)
    parameters = request.parameters("experiment.toml")["figures"]
    decreases = {case: model.decrease(case, **ACCELERATED) for case in CASES}
    measured = {case: right_way(value) for case, value in decreases.items()}

    def exponential(**more: float) -> float:
        fixed, random = (float(model.solve(case, **more)["fcp"]) for case in ("fcp-multi-md1", "fcp-multi-mm1"))
        return 100 * (random / fixed - 1)

    measured["exponential-baseline"] = right_way(exponential())
    measured["exponential-accelerated"] = right_way(exponential(**ACCELERATED))
    # Percentage points under the fitted reading, a share of the value under the printed one.
    points = request.reading == "fitted"
    measured["cast-outs"] = right_way(model.rise("fcp-single", co=0.4 if points else 0.24))
    measured["trailing-edge"] = right_way(model.rise("fcp-single", te=0.3 if points else 0.12))
    cpis = [float(model.solve("fcp-multi-md1", **with_it)["cpi"]) for with_it in ({}, ACCELERATED)]
    measured["cpi"] = right_way(100 * (1 - cpis[1] / cpis[0]))
    steps = {case: model.iterations(case) for case in CASES}
    measured["iterations"] = Measured(
        holds={case: n <= MOST_ITERATIONS for case, n in steps.items()},
        note="plain iteration takes " + ", ".join(str(n) if n < 1000 else "for ever" for n in steps.values()),
    )
    over_hro1 = [
        {"figure": "fig6", "hro1": hro1, "case": case, "fcp": float(model.solve(case, hro1=hro1)["fcp"])}
        for hro1 in parameters["hro1"]
        for case in ("fcp-multi-md1", "fcp-multi-mm1")
    ]
    falls = [p["fcp"] for p in over_hro1 if p["case"] == "fcp-multi-md1"]
    measured["hro1"] = Measured(holds={f"{a:.3g} to {b:.3g}": b < a for a, b in pairwise(falls)})
    curves = [
        {"figure": name, "mr2": mr2, "fe": f"FE {100 * fe:g} %", "decrease": model.decrease(case, mr2=mr2, fe=fe)}
        for name, (_, case) in FIGURES.items()
        for mr2 in parameters["mr2"]
        for fe in parameters["fe"]
    ]
    worst = model.decrease("fcp-single", mr2=0.03, fe=0.4)
    measured["fig5"] = Measured(
        holds={"lower at mr2 0.5 %, FE 1 %": decreases["fcp-single"] > 0, "higher at mr2 3 %, FE 40 %": worst < 0}
    )
    measured["fig8"] = Measured(holds=exponential(mr2=0.03, fe=0.01) > exponential(mr2=0.005, fe=0.01))
    drawn = [
        Figure(
            name,
            caption,
            figures.lines(
                [p for p in curves if p["figure"] == name], x="mr2", y="decrease", by="fe", y_title="FCP decrease, %"
            ),
        )
        for name, (caption, _) in FIGURES.items()
    ]
    drawn.append(
        Figure("fig6", "FCP over HRO1, 3 CPUs", figures.lines(over_hro1, x="hro1", y="fcp", by="case", y_title="FCP"))
    )
    return Outcome(measured, [*curves, *over_hro1], drawn)


class Bench:
    """Section 5.1: software and accelerator on the same workload, each run once."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.parameters = request.parameters("experiment.toml")

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
        choices = list(product(*(switches[name] for name in names)))
        for done, (n_copies, nic_data, write_buffer, write_back) in enumerate(choices, 1):
            self._request.progress("sensitivity", done, len(choices), f"NIC data {nic_data}")
            costs = {"write_buffer": write_buffer, "write_back": write_back}
            row: dict[str, Any] = {"figure": "sensitivity", "copies": n_copies, "nic_data": nic_data, **costs}
            kinds: dict[str, dict[str, Any]] = {"speedup": {"reads": False}, "speedup_reads": {"reads": True}}
            for instructions in switches["session_instructions"]:
                short = {"reads": False, "session_instructions": instructions, **self.parameters["short"]}
                kinds[f"speedup_short_{instructions}"] = short
            for name, more in kinds.items():
                workload = {
                    "kind": "receive",
                    **self.parameters["receive"],
                    "copies": n_copies,
                    "nic_data": nic_data,
                    "packets": {"packets": switches["packets"]},
                    **more,
                }
                clocks = [self.run(workload, method, costs)["clocks"] for method in ("loads", "table")]
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

    def messages(self) -> list[dict[str, Any]]:
        """Messages from each CPU to the next: clocks by loads and stores over clocks by the table."""
        parameters = self.parameters["messages"]
        rows = []
        for cpus, size in product(parameters["cpus"], parameters["bytes"]):
            workload = {"kind": "messages", "rounds": parameters["rounds"], "bytes": size}
            clocks = [self.run(workload, method, machine={"cpus": cpus})["clocks"] for method in ("loads", "table")]
            rows.append({"figure": "messages", "cpus": cpus, "bytes": size, "speedup": clocks[0] / clocks[1]})
        return rows


def ratio(software: dict[str, Any], hardware: dict[str, Any], of: str = "clocks_per_item") -> float:
    """Software over hardware."""
    return float(software[of]) / float(hardware[of])


def simulated(request: Request) -> Outcome:
    """Section 5.1."""
    bench = Bench(request)
    say = request.progress
    measured: dict[str, Measured] = {}
    points: list[dict[str, Any]] = list(bench.sensitivity())
    spread = {name: [p[name] for p in points if p["nic_data"] != "uncached"] for name in ("speedup", "speedup_reads")}
    uncached = {name: [p[name] for p in points if p["nic_data"] == "uncached"] for name in spread}

    def note(name: str) -> str:
        low, high = min(spread[name]), max(spread[name])
        with_uncached = f"{min(uncached[name]):.1f} to {max(uncached[name]):.1f} with uncached NIC data"
        return f"{low:.1f} to {high:.1f} over the switches, {with_uncached}"

    say("receiver", 0, 1, "")
    found = {
        (method, reads): bench.receive(method, reads=reads) for method in ("loads", "table") for reads in (False, True)
    }
    for id, reads, name in (("speedup", False, "speedup"), ("speedup-reads", True, "speedup_reads")):
        ours = ratio(found["loads", reads], found["table", reads])
        measured[id] = Measured(ours, holds=ours > 1, note=note(name))
    short = {m: bench.receive(m, **bench.parameters["short"]) for m in ("loads", "table")}
    measured["speedup-short"] = Measured(ratio(short["loads"], short["table"]), holds=False)
    slower = {m: short[m]["clocks_per_item"] / found[m, False]["clocks_per_item"] for m in short}
    measured["short-sessions"] = Measured(
        holds={"software is slower": slower["loads"] > 1.05, "the accelerator is not": slower["table"] < 1.05},
        note=f"software {slower['loads']:.2f} times, accelerator {slower['table']:.2f} times the clocks a packet",
    )
    for id, reads in (("instructions", False), ("instructions-reads", True)):
        ours = 100 * (1 / ratio(found["loads", reads], found["table", reads], "instructions") - 1)
        measured[id] = Measured(ours, holds=ours < 0)
    rises = {}
    for kind in ("read", "write"):
        for label, method in (("sw", "loads"), ("hw", "table")):
            for suffix, reads in (("", False), ("-reads", True)):
                measured[f"{kind}-hit-{label}{suffix}"] = Measured(100 * found[method, reads][f"{kind}_hit"])
        for reads in (False, True):
            words = "with reads" if reads else "without reads"
            rises[f"{kind} hits {words}"] = found["table", reads][f"{kind}_hit"] > found["loads", reads][f"{kind}_hit"]
    measured["hit-rates"] = Measured(holds=rises)
    hits = [found["table", reads]["counts"]["table_hits"] for reads in (False, True)]
    measured["index-hits"] = Measured(
        holds={"none": hits[0] == 0, "some": hits[1] > 0}, note=f"{hits[0]} and {hits[1]}"
    )
    copy = bench.parameters["stream"]
    stream = {"kind": "stream", **{k: copy[k] for k in ("bytes", "rounds", "arrays")}}
    rates = {
        name: bench.run(stream, {"by": "loads", **words})["copied_mb_s"] for name, words in copy["kernels"].items()
    }
    by_table = bench.run(stream, "table")
    rates["accelerator"] = by_table["copied_mb_s"]
    points += [{"figure": "table3", "kernel": name, "mb_s": rate} for name, rate in rates.items()]
    glibc = rates["glibc memcpy"]
    warm = [bench.run({**stream, "arrays": 1}, m)["clocks_per_item"] for m in ("loads", "table")]
    ours = rates["accelerator"] / glibc
    measured["stream"] = Measured(
        ours, holds=ours > 1, note=f"cold data; {warm[0] / warm[1]:.0f} times where both arrays stay cached"
    )
    measured["stream-order"] = Measured(
        holds={f"{n} <= glibc": r <= glibc for n, r in rates.items() if n.startswith("copy")}
        | {"glibc < accelerator": glibc < rates["accelerator"]}
    )
    touched = by_table["counts"]["touched"]
    measured["stream-writes"] = Measured(holds=touched < by_table["copies"] / 100, note=f"{touched} of them")
    rivals = list(bench.rivals())
    points += rivals
    points += bench.messages()
    reduction = {row["method"]: row["reduction_pct"] for row in rivals if row["as_in_paper"]}
    table = reduction["copy table"]
    words = ", ".join(f"{name} {value:.1f} %" for name, value in reduction.items())
    measured["beside-sync"] = Measured(table, holds=table > 0, note=words)
    measured["beside-order"] = Measured(
        holds={name: value < table for name, value in reduction.items() if name.startswith("engine")}
    )
    return Outcome(measured, points)


def hardware(request: Request) -> Outcome:
    """Section 3.3, and footnote 3."""
    size = 1 << 20

    def overhead(line: int, ways: int, reading: str) -> float:
        return 100 * cost.copy_table(size, line, ways, reading=reading).all / cost.cache(size, line, ways).all

    measured = {f"area-line-{line}": Measured(overhead(line, 4, "direct-mapped")) for line in (16, 128)}
    whole = {line: overhead(line, 4, "set-associative") for line in (16, 128)}
    grow = {
        line: 100 * (cost.copy_table(size, line, 32).all / cost.copy_table(size, line, 4).all - 1)
        for line in cost.LINES
    }
    measured["area-ways"] = Measured(
        max(grow.values()),
        holds=max(grow.values()) > 0,
        note=f"with all fields of section 3.2 overheads are {whole[16]:.1f} and {whole[128]:.1f} %",
    )
    table5 = request.parameters("experiment.toml")["table5"]
    writes = [a + b for a, b in zip(table5["source_writes"], table5["target_writes"], strict=True)]
    for id, n, instructions in zip(("fe-no-reads", "fe-reads"), writes, table5["instructions"], strict=True):
        measured[id] = Measured(100 * n / instructions, note="arithmetic on table 5, not a simulation")
    return Outcome(measured, [{"figure": "area", **row} for row in cost.document(size)["copy_table"]])


def measure(request: Request) -> Outcome:
    """All parts that are asked for."""
    parts = [analytic(request)]
    parts.append(hardware(request))
    if any(id not in {**parts[0].measured, **parts[1].measured} for id in request.claims):
        parts.append(simulated(request))
    return Outcome(
        {id: found for part in parts for id, found in part.measured.items()},
        [json.loads(json.dumps(point)) for part in parts for point in part.points],
        [figure for part in parts for figure in part.figures],
        notes=[f"in-sample: the fitted reading was chosen on the {len(CASES) + 5} numbers of section 5.2"]
        if request.reading == "fitted"
        else [],
    )


PAPER = Paper(
    id="2010-tc-duarte",
    title="Cache-based Memory Copy Hardware Accelerator for Multi-core Systems",
    authors="F. Duarte, S. Wong",
    venue="IEEE Transactions on Computers",
    year=2010,
    doi="10.1109/TC.2010.41",
    readings={
        "as-printed": "equations 1 to 16 and table 6 as they stand; CO and TE + 20 % are shares of their values",
        "fitted": "chosen among many because it comes nearest to section 5.2, so it predicts none of it: mr1 20 %, two "
        "clocks a cycle, one queue for all transfers of the data bus, + 20 % as percentage points",
    },
    measure=measure,
)
