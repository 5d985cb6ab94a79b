"""One machine, techniques of five systems: what each brings, what they do to each other, and the cheapest set.

    python study.py [FOLDER] [TARGET_MPPS]
    python study.py [FOLDER] gpu

The second runs GPUs beside the others and writes `gpu.md`: some minutes. The first
runs every combination of six techniques at saturation, with the same packets; then delay and loss at one rate of each
technique alone, of all, and of the best sets; loss at the target of the cheapest sets whose rate at saturation reaches
it, until one has none; and the highest rate without loss of the machine as it is, of that set and of the best one.
Writes `results.md` and `results.json` into FOLDER (study), where finished runs are kept: what was stopped goes on. Some
15 minutes of two cores.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import numpy as np

import wirespeed
from wirespeed.advise.factorial import Effect, effects, full
from wirespeed.sweep.until import interval

SCENARIO = Path(__file__).parent / "scenario.toml"
TARGET_MPPS = 30.0
# Carried by all of them, so that delays can be compared.
RATE = "12 Mpps"
REPLICATIONS = 3
BEST = 6

# Name, what it is, of which system, what switches it on, and what it costs in the order of `wirespeed advise`: parts
# that need another chip, KiB of SRAM (`wirespeed cost` for the copy table), LLC ways that cores lose, settings changed.
TECHNIQUES = {
    "slices": ("36 LLC slices in place of 18", 2020, ["machine.llc.slices=36"], (1, 0, 0, 1)),
    "rows": ("packets in piece-wise linear pages, not in mbufs", 2003, ["buffer.allocation=piecewise"], (1, 0, 0, 1)),
    "io_ways": ("4 of 11 LLC ways for devices, not 2", 2024, ["machine.llc.io_ways=4"], (0, 0, 2, 1)),
    "allocator": (
        "ways set while packets go, by the four-state allocator",
        2024,
        ["policy.kind=allocator", "policy.others=0", "policy.io_ways=2"],
        (0, 0, 0, 3),
    ),
    "copy_table": ("a copy table of 16,384 entries", 2010, ["machine.copy_table.entries=16384"], (1, 134, 0, 1)),
    "stages": (
        "lookups stage by stage over a burst, prefetched: a warp's way, in software",
        2011,
        ["function.forward.lookup.lookup=bulk", "function.forward.lookup.prefetch=true"],
        (0, 0, 0, 2),
    ),
}
NAMES = list(TECHNIQUES)

# Kernels that stay: cores copy, and the GPU forwards.
STAYS = ["machine.gpu.posting=persistent", "machine.gpu.fifo=512"]
GPUS = {
    "gpu": ("the 8 shader cores of 2011 on the server's memory", ["machine.gpu.preset=hermes", *STAYS]),
    "gpu_64": ("64 such shader cores", ["machine.gpu.preset=hermes", "machine.gpu.shaders.cores=64", *STAYS]),
    "gpu_card": ("an H100's 528 behind PCIe 5.0", ["machine.gpu.preset=h100", *STAYS]),
}
BESIDE = ["slices", "rows", "io_ways", "copy_table"]


def case(on: tuple[str, ...]) -> str:
    """The name of a set."""
    return "_".join(on) or "as_it_is"


def settings(on: tuple[str, ...]) -> list[str]:
    """What switches a set on."""
    return [override for name in on for override in TECHNIQUES[name][2]]


def cost(on: tuple[str, ...]) -> tuple[int, ...]:
    """What a set costs: parts that need another chip go first."""
    return tuple(int(sum(column)) for column in zip((0, 0, 0, 0), *(TECHNIQUES[name][3] for name in on), strict=True))


def runs(sets: list[tuple[str, ...]], folder: Path, metric: str, **more: object) -> dict[tuple[str, ...], list[float]]:
    """A metric of each set, by replication."""
    cases = {case(on): settings(on) for on in sets}
    study = wirespeed.sweep(
        SCENARIO, cases=cases, replications=REPLICATIONS, metrics=[metric], out=folder, jobs=2, **more
    )
    column = {"p99": "sojourn_ns.p99", "ndr": "search.mpps"}.get(metric, metric)
    table = study.table.to_pandas().sort_values(["case", "replication"])
    failed = table[table["error"].notna() & (table["error"] != "")]
    if len(failed):
        raise SystemExit(f"{len(failed)} runs failed; the first: {failed['error'].iloc[0]}")
    # Of runs so short that rings take in all packets no loss is known.
    values = table[column] if column in table else table["replication"] * float("nan")
    return {on: [float(v) for v in values[table["case"] == case(on)]] for on in sets}


def beside_gpus(folder: Path) -> str:
    """Each GPU alone, beside the copy table, and beside all techniques that change no lookup, as a table."""
    others = {"": (), "copy_table": ("copy_table",), "four": tuple(BESIDE)}
    cases = {
        f"{gpu}-{other}": [*set_gpu, *settings(on)]
        for gpu, set_gpu in {"": [], **{name: of for name, (_, of) in GPUS.items()}}.items()
        for other, on in others.items()
    }
    study = wirespeed.sweep(SCENARIO, cases=cases, replications=REPLICATIONS, out=folder / "gpus", jobs=2)
    rates: dict[str, list[float]] = {}
    limits: dict[str, set[str]] = {}
    for row in study.rows:
        if row["error"]:
            raise SystemExit(f"{row['case']}: {row['error']}")
        rates.setdefault(row["case"], []).append(row["carried_mpps"])
        limits.setdefault(row["case"], set()).add(row.get("gpu.limited_by") or row["verdict.limit"])
    lines = [
        "| who forwards | alone | with the copy table | with slices, rows, wide ways and copy table | alone, bound by |"
    ]
    lines.append("|" + "---|" * 5)
    for gpu, title in {"": "the four cores", **{name: title for name, (title, _) in GPUS.items()}}.items():
        cells = [f"{mean:.1f} ± {wide:.1f} Mpps" for mean, wide in (interval(rates[f"{gpu}-{o}"]) for o in others)]
        lines.append(f"| {title} | {' | '.join(cells)} | {', '.join(sorted(limits[f'{gpu}-'])).replace('_', ' ')} |")
    return "\n".join([*lines, ""])


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "study")
    if sys.argv[2:] == ["gpu"]:
        text = beside_gpus(folder)
        (folder / "gpu.md").write_text(text, encoding="utf-8")
        sys.stdout.write(text)
        return
    target = float(sys.argv[2]) if len(sys.argv) > 2 else TARGET_MPPS
    design = full(len(NAMES))
    sets = [tuple(name for name, on in zip(NAMES, row, strict=True) if on) for row in design.on]
    saturated = runs(sets, folder / "saturated", "carried_mpps")
    rates = np.array([saturated[on] for on in sets]).T
    base = float(np.mean(saturated[()]))

    def effect(product: tuple[int, ...]) -> Effect:
        (found,) = effects(design, rates, [product])
        return Effect(100 * found.value / base, 100 * found.half_width / base)

    main_effects = {name: effect((i,)) for i, name in enumerate(NAMES)}
    pairs = {(NAMES[i], NAMES[j]): effect((i, j)) for i, j in itertools.combinations(range(len(NAMES)), 2)}
    gains = {on: gain(saturated[on], saturated[()]) for on in sets}
    best = sorted(sets, key=lambda on: -gains[on][0])[:BEST]
    shown = list(dict.fromkeys([(), *((name,) for name in NAMES), tuple(NAMES), *best]))
    at_rate = {"traffic.packet_rate": RATE}
    p99 = runs(shown, folder / "rate", "p99", set=at_rate)
    loss = runs(shown, folder / "rate", "loss", set=at_rate)
    # Cheaper sets are tried first, and of those that cost the same the one that promises most.
    reached = None
    for on in sorted((on for on in sets if np.mean(saturated[on]) >= target), key=lambda on: (cost(on), -gains[on][0])):
        if (
            max(runs([on], folder / "target" / case(on), "loss", set={"traffic.packet_rate": f"{target} Mpps"})[on])
            == 0
        ):
            reached = on
            break
    searched = list(dict.fromkeys(on for on in ((), best[0], reached) if on is not None))
    ndr = runs(searched, folder / "ndr", "ndr", set={"run.search": "ndr", "run.search_resolution": 0.01})
    document = {
        "base_mpps": base,
        "target_mpps": target,
        "effects": {name: [each.value, each.half_width] for name, each in main_effects.items()},
        "interactions": {" × ".join(pair): [each.value, each.half_width] for pair, each in pairs.items()},
        "saturated_mpps": {case(on): saturated[on] for on in sets},
        "ndr_mpps": {case(on): ndr[on] for on in searched},
        "p99_ns": {case(on): p99[on] for on in shown},
        "loss": {case(on): loss[on] for on in shown},
        "cheapest": None if reached is None else case(reached),
    }
    (folder / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    text = page(document, main_effects, pairs, shown, saturated, gains, ndr, p99, loss, reached)
    (folder / "results.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


def gain(of: list[float], base: list[float]) -> tuple[float, float]:
    """By how many per cent more, seed by seed, with its half-width."""
    return interval_of([100 * (a / b - 1) for a, b in zip(of, base, strict=True)])


def interval_of(values: list[float]) -> tuple[float, float]:
    """Mean and 95 % half-width over replications."""
    return interval(values)


def shown_as(values: tuple[float, float], digits: int = 1) -> str:
    return f"{values[0]:+.{digits}f} ± {values[1]:.{digits}f} %"


def page(document, main_effects, pairs, shown, saturated, gains, ndr, p99, loss, reached) -> str:
    lines = [f"As it is: {document['base_mpps']:.1f} Mpps at saturation.", ""]
    lines += ["| technique | system | alone | among the others |", "|---|---|---|---|"]
    order = sorted(NAMES, key=lambda name: -gains[name,][0])
    for name in order:
        title, year, _, _ = TECHNIQUES[name]
        each = main_effects[name]
        brings = shown_as((each.value, each.half_width))
        lines.append(f"| `{name}`: {title} | {year} | {shown_as(gains[name,])} | {brings} |")
    lines += ["", f"| set | at saturation | p99 at {RATE} | loss there |", "|---|---|---|---|"]
    for on in shown:
        title = " + ".join(on) or "as it is"
        if len(on) == len(NAMES):
            title = "all six"
        (rate, wide), delay = interval_of(saturated[on]), interval_of(p99[on])
        lines.append(
            f"| {title} | {rate:.1f} ± {wide:.1f} Mpps | "
            f"{delay[0] / 1000:.2f} ± {delay[1] / 1000:.2f} µs | {np.mean(loss[on]):.2g} |"
        )
    lines += ["", "Together they bring more or less than one by one, by:", ""]
    for pair, each in sorted(pairs.items(), key=lambda item: -abs(item[1].value)):
        if each.is_sure:
            lines.append(f"- {pair[0]} with {pair[1]}: {shown_as((each.value, each.half_width))}")
    target = document["target_mpps"]
    found = "none" if reached is None else " + ".join(reached) or "the machine as it is"
    lines += ["", f"The cheapest set that carries {target:g} Mpps without loss: {found}.", ""]
    lines += ["| set | highest rate without loss (NDR) |", "|---|---|"]
    for on, rates in ndr.items():
        free, about = interval_of(rates)
        lines.append(f"| {' + '.join(on) or 'as it is'} | {free:.1f} ± {about:.1f} Mpps |")
    lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
