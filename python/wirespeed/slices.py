"""LLC slices over stacked DRAM: the three architectures of Korikawa et al. (IEEE Access 2020) side by side.

What is looked up is a table whose entries are wanted by a Zipf-like law, or what a packet function looks up in real
tables for real packets. Each is simulated (`studies::slices`) and previewed in closed form; the preview's error is told
beside it.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rich.table import Table

from wirespeed import _wirespeed, printed
from wirespeed import quantities as q
from wirespeed.errors import InputError, nearest

ARCHITECTURES: Final = {"proposed": "Proposed", "no_llc": "without LLC", "shared_llc": "shared LLC"}

ROOM: Final = "2020-access-korikawa"
RECORDED_PACKETS: Final = 200_000
_PREVIEWED: Final = (
    ("throughput_per_us", "throughput", False),
    ("wait_ns", "wait W_e", False),
    ("blocking", "blocking", True),
    ("l1_hits", "L1 hits", True),
    ("l2_hits", "L2 hits", True),
    ("llc_hits", "LLC hits", True),
)


def default(settings: Sequence[str] = (), real_size: bool = False) -> dict[str, Any]:
    """The setting that all architectures share: the paper's, `settings` (`path=value`) over it. Raises InputError."""
    spec: dict[str, Any] = json.loads(_wirespeed.slices_spec())
    if real_size:
        sizes = tomllib.loads(_wirespeed.paper_file(ROOM, "study.toml") or "")["real_size"]
        for level in ("l1", "l2", "slice", "shared"):
            spec["caches"][level] |= sizes[level]
        spec["applications"][0]["entries"] = sizes["entries"]
    for setting in settings:
        _set(spec, setting)
    return spec


def _set(spec: dict[str, Any], setting: str) -> None:
    path, found, text = setting.partition("=")
    if not found:
        raise InputError(f"--set {setting}: path=value is wanted, for example limit=400 or applications.0.rho=0.9")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    if path == "architecture":
        raise InputError("--set architecture: all three are simulated side by side (leave it out)")
    at: Any = spec
    *above, last = path.split(".")
    for name in above:
        at = _member(at, name, path)
        if at is None:
            raise InputError(f"--set {path}: {name} is left out here: give it as a whole, {name}={{...}}")
    if isinstance(at, list):
        _member(at, last, path)
        at[int(last)] = value
    elif isinstance(at, dict):
        at[last] = value
    else:
        raise InputError(f"--set {path}: {'.'.join(above)} has no members")


def _member(of: Any, name: str, path: str) -> Any:
    if isinstance(of, dict) and name in of:
        return of[name]
    if isinstance(of, list) and name.isdigit() and int(name) < len(of):
        return of[int(name)]
    known = list(of) if isinstance(of, dict) else [str(n) for n in range(len(of))] if isinstance(of, list) else []
    raise InputError(f"--set {path}: no {name} here{nearest(name, known)}; there are {', '.join(known)}")


def judged(spec: Mapping[str, Any]) -> dict[str, Any]:
    """`spec` with everything filled in. Raises InputError."""
    try:
        text = json.dumps(spec, allow_nan=False, default=str)
    except ValueError as e:
        raise InputError("a setting is no finite number: finite ones are allowed (see --format json)") from e
    found: dict[str, Any] = json.loads(_wirespeed.slices_spec(text))
    return found


def record(
    scenario: _wirespeed.Scenario, packets: int = RECORDED_PACKETS, line_bytes: int = 64
) -> _wirespeed.RecordedLookups:
    """What the packet function of a scenario that was judged looks up, in lines of so many bytes. Raises InputError."""
    return _wirespeed.RecordedLookups(scenario, packets, line_bytes)


def study(
    spec: Mapping[str, Any],
    lookups: _wirespeed.RecordedLookups | None = None,
    runs: int = 1,
    seed: int = 0,
    threads: int | None = None,
    preview: bool = False,
    progress: Callable[[str, int, int, str], None] | None = None,
) -> dict[str, Any]:
    """The three architectures under one setting.

    `notes` say what there is to know of the setting, with `preview` alone, too. `architectures` have `outcome` (the
    simulation; None with `preview` alone), `preview` in closed form (None where there is none), what that does not know
    of (`preview_leaves_out`), and its `errors`. In `outcome`, `applications` has the figures of each. `lookups` replace
    the first application's table: of `spec`, its `entries` and `alpha` are
    left out then. Rates are in millions a second, times in ns; half-widths of 95 % are those of `runs`, or of the 32
    batches of one. Raises InputError.
    """
    shared = judged(spec)
    echoed, facts = shared, None
    if lookups is not None:
        facts = json.loads(lookups.facts())
        _refuse_unused(shared, facts)
        echoed = copy.deepcopy(shared)
        for name in ("entries", "alpha"):
            del echoed["applications"][0][name]
        shared["applications"][0]["entries"] = facts["lines"] * (shared["line_bytes"] // shared["entry_bytes"])
    each = [{**shared, "architecture": architecture} for architecture in ARCHITECTURES]
    previews = [_preview(one, lookups) for one in each]
    outcomes: list[dict[str, Any] | None] = [None] * len(each)
    if not preview:
        points = [{"spec": one, "seed": seed, "runs": runs} for one in each]
        outcomes = _simulated(points, lookups, threads, progress)
    rows = [
        {
            "architecture": one["architecture"],
            "outcome": outcome,
            "preview": guess["found"],
            "preview_leaves_out": guess["left_out"],
            "errors": _errors(guess["found"], outcome),
        }
        for one, outcome, guess in zip(each, outcomes, previews, strict=True)
    ]
    told = [note for known in (previews if preview else outcomes) if known is not None for note in known["notes"]]
    return {
        "schema": "wirespeed.slices/1",
        "spec": echoed,
        "notes": list(dict.fromkeys(told)),
        "lookups": facts,
        "runs": runs,
        "seed": seed,
        "architectures": rows,
    }


def _simulated(
    points: Sequence[Mapping[str, Any]],
    lookups: _wirespeed.RecordedLookups | None,
    threads: int | None,
    progress: Callable[[str, int, int, str], None] | None,
) -> list[dict[str, Any] | None]:
    """What comes of each architecture."""
    outcomes: list[dict[str, Any] | None] = [None] * len(points)
    done = 0

    def keep(place: int, outcome: str) -> None:
        nonlocal done
        outcomes[place] = json.loads(outcome)
        done += 1
        if progress is not None:
            progress("architectures", done, len(points), ARCHITECTURES[points[place]["spec"]["architecture"]])

    _wirespeed.run_slices([json.dumps(point) for point in points], keep, threads, lookups)
    return outcomes


def _refuse_unused(spec: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """What recorded lookups put out of use may not have been set."""
    if spec["line_bytes"] != facts["line_bytes"]:
        raise InputError(
            f"line_bytes = {spec['line_bytes']}: allowed is {facts['line_bytes']}, of which the lookups were recorded "
            "(record them with these lines)"
        )
    usual = default()
    sizes = {usual["applications"][0]["entries"], default((), real_size=True)["applications"][0]["entries"]}
    first, plain = spec["applications"][0], usual["applications"][0]
    unused = [
        ("applications[0].entries", first["entries"], first["entries"] in sizes),
        ("applications[0].alpha", first["alpha"], first["alpha"] == plain["alpha"]),
    ]
    if len(spec["applications"]) == 1:
        ranks = spec["reading"]["ranks"]
        unused += [
            ("reading.ranks", ranks, ranks == usual["reading"]["ranks"]),
            ("entry_bytes", spec["entry_bytes"], spec["entry_bytes"] == usual["entry_bytes"]),
        ]
    for path, came, is_usual in unused:
        if not is_usual:
            raise InputError(f"{path} = {came}: recorded lookups have a table of their own (leave it out)")


def _preview(spec: Mapping[str, Any], lookups: _wirespeed.RecordedLookups | None) -> dict[str, Any]:
    """`found`, None where closed forms say nothing, and `left_out`, what they do not know of."""
    told: dict[str, Any] = json.loads(_wirespeed.preview_slices(json.dumps(spec), lookups))
    return told


def _errors(guess: Mapping[str, Any] | None, outcome: Mapping[str, Any] | None) -> dict[str, float | None] | None:
    """Preview less simulation: of shares in absolute terms, else by the simulated value."""
    if guess is None or outcome is None:
        return None
    errors: dict[str, float | None] = {}
    for name, _, is_share in _PREVIEWED:
        ours, theirs = guess[name], outcome[name]["value"]
        if not (q.is_number(ours) and q.is_number(theirs)) or (not is_share and not theirs):
            errors[name] = None
        else:
            errors[name] = ours - theirs if is_share else (ours - theirs) / theirs
    return errors


def tables(found: Mapping[str, Any]) -> list[Table]:
    """The architectures side by side, for people."""
    rows = found["architectures"]
    outcomes = [row["outcome"] for row in rows]
    shown = _beside(_title(found), rows)
    if outcomes[0] is not None:
        _add_figures(shown, outcomes)
        shown.add_row("limit", *(_limit(outcome) for outcome in outcomes))
        shown.add_row("waits", *("steady" if o["steady"] else "still have a trend" for o in outcomes))
        shown.add_section()
    for name, words, is_share in _PREVIEWED:
        cells = [_guess(row, name, is_share) for row in rows]
        if any(cell != q.MISSING for cell in cells):
            shown.add_row(f"closed form: {words}", *cells)
    out = [shown] if shown.row_count else []
    applications = found["spec"]["applications"]
    if outcomes[0] is not None and len(applications) > 1:
        for n, application in enumerate(applications):
            each = _beside(f"applications[{n}]: {_application(application)}", rows)
            _add_figures(each, [outcome["applications"][n] for outcome in outcomes])
            if any(outcome["skip_changes"] for outcome in outcomes):
                ends = [outcome["applications"][n]["skipping"] for outcome in outcomes]
                each.add_row("skips the LLC at the end", *("yes" if skips else "no" for skips in ends))
            out.append(each)
    if (facts := found["lookups"]) is not None:
        out.append(_facts(facts))
    return out


def sentence(found: Mapping[str, Any]) -> str:
    """The answer: which architecture carries how much, simulated or else by closed form."""
    carried = {}
    for row in found["architectures"]:
        outcome, guess = row["outcome"], row["preview"]
        value = outcome["throughput_per_us"]["value"] if outcome is not None else (guess or {}).get("throughput_per_us")
        if q.is_number(value):
            carried[ARCHITECTURES[row["architecture"]]] = value
    if not carried:
        return "Nothing is known of any architecture."
    best = max(carried, key=lambda name: carried[name])
    others = ", ".join(f"{name} {q.digits(value)}" for name, value in carried.items() if name != best)
    how = "simulated" if found["architectures"][0]["outcome"] is not None else "by closed form"
    beside = f" ({others})" if others else ""
    return f"{best} carries most, {how}: {q.digits(carried[best])} million lookups a second{beside}."


def notes(found: Mapping[str, Any]) -> list[str]:
    """What a reader should know of the numbers, for people."""
    left_out = dict.fromkeys(told for row in found["architectures"] for told in row["preview_leaves_out"])
    return [*found["notes"], *(f"closed forms leave out {what}" for what in left_out)]


def _beside(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """A table with a column for each architecture."""
    return printed.table("", *(f">{ARCHITECTURES[row['architecture']]}" for row in rows), title=title)


def _add_figures(shown: Table, outcomes: Sequence[Mapping[str, Any]]) -> None:
    """A row for each figure that these have and one of them saw."""
    for name, words, scale, digits in _SHOWN:
        cells = [_cell(outcome[name], scale, digits) if name in outcome else q.MISSING for outcome in outcomes]
        if any(cell != q.MISSING for cell in cells):
            shown.add_row(words, *cells)


def _limit(outcome: Mapping[str, Any]) -> str:
    by = outcome["saturated"]
    return "stable" if by is None else "limit K" if by == "limit" else f"saturated: {by}"


_SHOWN: Final = (
    ("throughput_per_us", "throughput, M/s", 1.0, 2),
    ("throughput_gbps", "of 64-byte packets, Gbps", 1.0, 2),
    ("wait_ns", "wait for a core W_e, ns", 1.0, 1),
    ("sojourn_ns", "in the system, ns", 1.0, 1),
    ("held_ns", "held by a core, ns", 1.0, 1),
    ("blocking", "blocked, %", 100.0, 2),
    ("l1_hits", "L1 hits, %", 100.0, 1),
    ("l2_hits", "L2 hits, %", 100.0, 1),
    ("llc_hits", "LLC hits, %", 100.0, 1),
    ("skipped", "L2 misses past the LLC, %", 100.0, 1),
    ("to_dram", "lookups that reach DRAM, %", 100.0, 1),
    ("interleaved", "interleaved there, %", 100.0, 2),
    ("slice_wait_ns", "wait for a slice, ns", 1.0, 2),
    ("bank_wait_ns", "wait for a bank, ns", 1.0, 2),
    ("core_use", "cores busy, %", 100.0, 1),
    ("slice_use", "slices busy, %", 100.0, 1),
    ("bank_use", "banks busy, %", 100.0, 1),
    ("header_use", "packet buffer busy, %", 100.0, 1),
)


def _title(found: Mapping[str, Any]) -> str:
    spec, facts = found["spec"], found["lookups"]
    applications = spec["applications"]
    what = "" if facts is None else f"{q.count(facts['packets'])} packets, {facts['per_packet']:.1f} lookups each; "
    if len(applications) == 1:
        return what + _application(applications[0])
    cores, rho = (sum(application[name] for application in applications) for name in ("cores", "rho"))
    return f"{what}{len(applications)} applications on {cores} cores, rho {rho:g}, isolation {spec['isolation']}"


def _application(application: Mapping[str, Any]) -> str:
    table = f"{application['entries']:,} entries, alpha {application['alpha']:g}; " if "alpha" in application else ""
    return f"{table}{application['cores']} cores, {application['slices']} slices, rho {application['rho']:g}"


def _cell(figure: Mapping[str, float | None], scale: float, digits: int) -> str:
    value, half_width = figure["value"], figure["half_width"]
    if not q.is_number(value) or value is None:
        return q.MISSING
    around = f" ± {half_width * scale:.{digits}f}" if half_width is not None and q.is_number(half_width) else ""
    return f"{value * scale:.{digits}f}{around}"


def _guess(row: Mapping[str, Any], name: str, is_share: bool) -> str:
    guess, error = row["preview"], (row["errors"] or {}).get(name)
    if guess is None or not q.is_number(guess[name]) or (name == "llc_hits" and row["architecture"] == "no_llc"):
        return q.MISSING
    scale = 100.0 if is_share else 1.0
    told = f"{guess[name] * scale:.{1 if is_share else 2}f}"
    if error is None:
        return told
    return f"{told} ({error * 100:+.1f}{'' if is_share else ' %'})"


def _facts(facts: Mapping[str, Any]) -> Table:
    shown = printed.table("", ">", title="What was looked up")
    for file in facts["files"]:
        shown.add_row(file["kind"], file["name"])
    shown.add_row("packets", q.count(facts["packets"]))
    shown.add_row("that look nothing up", q.count(facts["without"]))
    shown.add_row("lookups of each other", f"{facts['per_packet']:.2f}")
    shown.add_row("stores among them, taken as reads", f"{100 * facts['stores']:.1f} %")
    shown.add_row(f"lines of the tables, {facts['line_bytes']} B each", q.count(facts["lines"]))
    shown.add_row("lines looked up", q.count(facts["touched"]))
    for region in facts["regions"]:
        shown.add_row(f"  {region['name']}", f"{region['lines']:,} lines")
    return shown
