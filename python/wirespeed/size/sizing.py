"""A sizing from end to end: what was asked, what was tried, the answer as a document."""

from __future__ import annotations

import math
import os
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wirespeed import api, scenarios
from wirespeed.errors import InputError
from wirespeed.size import aim as aims
from wirespeed.size.aim import Aim, Wish
from wirespeed.size.dimensions import DIMENSIONS, Machine, Resolved, Space, processor_cores, space
from wirespeed.size.search import Found, Search, limits
from wirespeed.size.trials import Trial, Trials

SCHEMA: Final = "wirespeed.size/1"
# Above this share nothing was lost at line rate but by chance: the port is what limits.
_LOSSLESS: Final = 1e-3
_LINE: Final = 1.001


def size(wish: Wish) -> tuple[dict[str, Any], str]:
    """The document of a sizing, and the scenario of the answer, or of what falls short by least, as TOML."""
    faults: list[str] = []
    wanted = aims.aim(wish, faults)
    try:
        resolved = tomllib.loads(api.resolve(wish.scenario, wish.capture, wish.table, wish.set, wish.seed))
    except InputError as e:
        raise InputError("\n".join([*faults, str(e)])) from None
    if resolved["run"].get("search") or resolved["run"].get("sampling"):
        faults.append("run.search, run.sampling: how runs are made is the search's; leave them out of the scenario")
    room = space(resolved, wish.vary, wish.fix, faults)
    gbps = aims.line_gbps(resolved)
    if wanted is not None and wanted.rate.kind == "bits" and wanted.rate.value > gbps * 1e9 * _LINE:
        faults.append(
            f"--target {wish.target}: is more than the port's line rate of {gbps:g} Gbps; give less, or raise nic.rate"
        )
    trials = None if wanted is None else Trials(wish, wanted, room, resolved)
    faults += [] if trials is None else _impossible(room, trials)
    if faults or wanted is None or trials is None:
        raise InputError("\n".join(faults))
    line = trials.saturated(room.now)
    mpps = wanted.mpps(float(line["offered_mpps"]), gbps)
    if mpps > float(line["offered_mpps"]) * _LINE:
        raise InputError(aims.beyond(wish, float(line["offered_mpps"]), gbps))
    search = Search(trials, wanted, mpps, _served(line) / room.now["cores"])
    found = search.found(wish.least)
    document = _document(wish, wanted, resolved, trials, found, (line, mpps, gbps))
    return document, trials.resolved(found.nearest.machine, wanted.packets)


def _impossible(room: Space, trials: Trials) -> list[str]:
    """What is wrong with values that were given: the least and the most of each, on the machine as it is otherwise."""
    faults = []
    for name in sorted(room.given):
        for value in sorted({room.values[name][0], room.values[name][-1]}):
            changed = {**room.now, name: value}
            why = trials.why_not(changed if name == "pool" else trials.fitted(changed))
            if why is not None:
                faults.append(f"--vary {name}={value}: {why}")
    return faults


def _document(
    wish: Wish, wanted: Aim, of: Resolved, trials: Trials, found: Found, line: tuple[Mapping[str, Any], float, float]
) -> dict[str, Any]:
    room, (at_line, mpps, gbps), answer = trials.space, line, found.answer
    best = found.nearest
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "scenario": "<text>" if "\n" in os.fspath(wish.scenario) else os.fspath(wish.scenario),
        "name": of.get("name", ""),
        "machine": of["machine"].get("name", ""),
        "processor_cores": processor_cores(of),
        "target": {
            "text": wanted.text,
            "mpps": mpps,
            "line_mpps": float(at_line["offered_mpps"]),
            "line_gbps": gbps,
            "loss": wanted.loss,
            "p99_ns": wanted.p99_ns,
            "packets": wanted.packets,
            "needed_packets": wanted.needed,
            "shown_loss": wanted.shown,
            "overload_shown": 2.0 / math.sqrt(max(best.packets / max(best.runs, 1), 1)),
        },
        "met": answer is not None,
        "already": answer is not None and answer.machine == room.now,
        "now": _trial(found.now, room),
        "answer": None if answer is None else _trial(answer, room),
        "nearest": _trial(best, room),
        "changes": _changes(best.machine, room.now),
        "margin": _margin(trials, best, mpps, at_line if best.machine == room.now else None),
        "least_ring": found.least_ring,
        "short": None if answer is not None else _short(found, trials.made(), room, mpps),
        "dimensions": {
            name: {"now": room.now[name], "values": list(values), "given": name in room.given}
            for name, values in room.values.items()
        },
        "tried": [_trial(each, room) for each in trials.made()],
        "set": trials.settings(best.machine),
        "command": _command(wish, wanted, trials.settings(best.machine)),
    }
    return document | {"runs": trials.runs, "packets": trials.packets}


def _trial(trial: Trial, room: Space) -> dict[str, Any]:
    verdict = (trial.last or {}).get("verdict") or {}
    return {
        "machine": dict(trial.machine),
        "changed": [name for name in room.now if trial.machine[name] != room.now[name]],
        "outcome": trial.outcome,
        "cause": trial.cause,
        "why": trial.why,
        "packets": trial.packets,
        "runs": trial.runs,
        "offered_mpps": trial.offered_mpps,
        "carried_mpps": trial.carried_mpps,
        "carried_half_width": trial.carried_half_width,
        "lost": trial.lost,
        "loss": trial.loss,
        "loss_upper_95": trial.loss_upper,
        "stall_loss": trial.stall_loss,
        "stalls": (trial.last or {}).get("stalls"),
        "p99_ns": trial.p99_ns,
        "p99_low": trial.p99_low,
        "p99_high": trial.p99_high,
        "grows_packets": trial.grows,
        "busiest_core": trial.busy,
        "limit": verdict.get("limit"),
        "headroom": verdict.get("headroom"),
        "model_errors": verdict.get("model_errors") or [],
        "run_id": (trial.last or {}).get("run_id"),
    }


def _changes(chosen: Machine, now: Machine) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "path": each.path,
            "title": each.title,
            "from": now[each.name],
            "to": chosen[each.name],
            "who": each.who,
            "where": each.where,
        }
        for each in DIMENSIONS
        if each.name in now and chosen[each.name] != now[each.name]
    ]


def _margin(trials: Trials, best: Trial, mpps: float, at_line: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the machine carries at line rate, and whether what is left is more than the model's error."""
    line = at_line or trials.saturated(best.machine)
    carried, lossless = float(line["carried_mpps"]), float(line["loss"]) <= _LOSSLESS
    served = _served(line)
    verdict = (best.last or {}).get("verdict") or {}
    headroom = verdict.get("headroom")
    # A port that is full hides how much more a machine would take; there what its parts have left is all that is known.
    capacity = max(served, mpps * (1.0 + headroom)) if lossless and headroom is not None else served
    error = next((each for each in verdict.get("model_errors") or () if each["kind"] == "rate"), None)
    high = None if error is None else error["high"]
    # A prediction that may be so much too high is met by the server if it is still enough divided by it.
    wanted = None if high is None else mpps * (1.0 + max(high, 0.0))
    # More cores bring more where it is cores that limit what is carried at line rate.
    by_cores = (line.get("verdict") or {}).get("limit") == "core"
    return {
        "saturated_mpps": carried,
        "lossless_at_line": lossless,
        "capacity_mpps": capacity,
        "share": capacity / mpps - 1.0,
        "error_low": None if error is None else error["low"],
        "error_high": high,
        "beyond_model_error": None if wanted is None else capacity >= wanted,
        "cores_beyond_error": None
        if wanted is None or not best.meets or not by_cores
        else max(math.ceil(best.machine["cores"] * wanted / capacity), best.machine["cores"]),
    }


def _served(summary: Mapping[str, Any]) -> float:
    """What is not lost: what is carried, and what the function rejects, whatever the machine."""
    rejected = float(summary.get("rejected") or 0) / float(summary.get("packets") or 1)
    return float(summary["carried_mpps"]) + rejected * float(summary["offered_mpps"])


# What all cores share.
_SHARED_BY_CORES: Final = ("nic", "pcie", "dram", "iommu")


def _short(found: Found, made: Sequence[Trial], room: Space, mpps: float) -> dict[str, Any]:
    """Of a target that nothing meets: what limits the nearest machine, and what would have to grow."""
    best, cores = found.nearest, found.nearest.machine["cores"]
    limit = limits(best)
    if limit == "core" and best.cause == "rate":
        # Machines with more cores carry no more, or one of them were the nearest: what limits those is what limits.
        more = [each for each in made if each.cause == "rate" and each.machine["cores"] > cores]
        largest = max(more, key=lambda each: each.machine["cores"], default=best)
        limit = limits(largest) if limits(largest) in _SHARED_BY_CORES else limit
    last = {name for name, values in room.values.items() if best.machine[name] == values[-1] and name != "pool"}
    grow: list[str] = []
    if best.cause == "rate" and limit in ("core", "other", None):
        grow = [name for name in ("receivers", "cores") if name in last]
    elif best.cause == "rate" and limit == "nic":
        # Where more of its queues were tried, it is the NIC as a whole.
        grow = [name for name in ("queues", "receivers") if name in room.now and len(room.values[name]) == 1]
    elif best.cause in ("loss", "stalls"):
        grow = [name for name in ("rings", "queues", "cores") if name in last]
    elif best.cause == "p99" and limit == "core":
        grow = [name for name in ("cores",) if name in last]
    needed = None
    if "cores" in grow and best.cause == "rate" and best.served_mpps:
        needed = math.ceil(cores * mpps / best.served_mpps)
    return {"cause": best.cause, "limit": limit, "grow": grow, "cores_by_share": needed}


def _command(wish: Wish, wanted: Aim, settings: Sequence[str]) -> str:
    """The command line that runs the answer."""
    words = ["wirespeed", "run", os.fspath(wish.scenario)]
    for option, given in (("--capture", wish.capture), ("--table", wish.table)):
        words += [option, os.fspath(given)] if given is not None else []
    given_set = [*scenarios.overrides(wish.set), *settings, wanted.offered_words, f"run.packets={wanted.packets}"]
    last = {override.partition("=")[0].strip(): override for override in given_set}
    words += [text for override in last.values() for text in ("--set", override)]
    return shlex.join(words if wish.seed is None else [*words, "--seed", str(wish.seed)])
