"""Runs a scenario with sets of techniques, at saturation and at its own load, all on the same packets."""

from __future__ import annotations

import math
import os
import shlex
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from wirespeed import api, quantities, scenarios, units
from wirespeed.advise import lossless, techniques
from wirespeed.advise.factorial import Runs
from wirespeed.advise.techniques import Technique, Unfit
from wirespeed.errors import InputError
from wirespeed.progress import Callback
from wirespeed.sweep import Ask, study, until
from wirespeed.sweep.engine import Local, Threads
from wirespeed.sweep.metrics import METRICS, ring_fills, waits_more
from wirespeed.sweep.plan import PathLike

PACKETS: Final = 40_000
# A port that is so many times as fast, and a link to the host: the first at which this share of packets is lost.
_LIFTS: Final = (1, 2, 4, 8, 16)
_SATURATED: Final = 0.3
# What is lost of line rate beyond chance: then the port is not what limits the machine.
_LIMITED: Final = 0.01
# Of its rate that PCIe carries where it is what limits, as a run's verdict has it.
_LINK_FULL: Final = 0.95
_FLOOR: Final = 0.05
_LINE_RATE: Final = "traffic.load=1.0"
# Settings that say how much is offered, of which there may be one.
_OFFERED: Final = frozenset({"traffic.load", "traffic.rate", "traffic.packet_rate", "traffic.speed"})
_CONFIRMED: Final = 100_000
# Where seeds differ much, as flows fall unevenly on cores, more of them would cost more than all that came before.
_MOST_CONFIRMED: Final = 8
_CONFIRMED_WITHIN: Final = "carried_mpps 1%"
# Seeds of the confirmation begin here; comparisons never have so many replications.
CONFIRMED_FROM: Final = 1000
# A trial of the search for the highest rate without loss has as many packets as a run of the comparison, at least so
# many, and rates are found to that share. What waits may grow (by Little's law) by that share of them, and by a burst
# a core: of much shorter trials bursts would be more than the share.
_LEAST_TRIAL: Final = 40_000
# A target is tried with so many packets, at least.
_LEAST_TARGET: Final = 300_000
# Packets of the run as it is, of the one that says what line rate is, and of trials at the real port.
_OWN: Final = 100_000
_AT_LINE: Final = 20_000
_SEARCHED: Final = 20_000
_SEARCH_TRIAL: Final = 100_000
NDR_WITHIN: Final = 0.01


# Rejections that are not what a function is for, as those of a filter are: traffic that does not suit the scenario.
_NOT_CARRIED: Final = (
    *("no_route", "not_ip", "truncated", "bad_version", "bad_header_length", "bad_total_length", "bad_checksum"),
    *("source_martian", "destination_martian", "destination_multicast", "destination_broadcast", "link_local"),
    *("ttl_expired", "hop_limit_exceeded", "nat_untranslatable", "nat_no_session", "unknown_teid", "unknown_ue"),
)
# The share of packets rejected for these above which advice is about what is not carried.
_MOST_REJECTED: Final = 0.5
_REASONS: Final[Mapping[str, str]] = {
    "no_route": "the routing table has no route to their destinations",
    "no_mbuf": "the mempool is empty: it is smaller than rings and bursts hold",
    "no_rx_descriptor": "receive rings are full",
    "not_ip": "they are not IP",
    "nat_no_session": "no session is known for them",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """Responses `[replication, set]`."""

    runs: Runs
    within: Runs | None = None
    """Where replications see the same packets: the half-width of each response `[set]` by batches of that run."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What advice is asked for; see `wirespeed.advise`."""

    scenario: PathLike
    capture: PathLike | None = None
    table: PathLike | None = None
    set: scenarios.Overrides = None
    goal: str = "rate"
    target: str | None = None
    without: Sequence[str] = ()
    packets: int = PACKETS
    jobs: int | None = None
    out: PathLike | None = None
    progress: Callback | None = field(default=None, compare=False)
    also: Sequence[str] = ()
    in_processes: bool = False
    """Whether runs are made in processes of their own, and not in threads of this one."""
    refused: list[str] = field(default_factory=list, compare=False)
    """Filled with the files of finished runs that were not used, each with the reason."""


class Bench:
    """Runs the scenario with sets of techniques, at saturation and at its own load."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        given = scenarios.overrides(asked.set)
        for path, _, value in (override.partition("=") for override in given):
            if path.strip() == "run.packets":
                raise InputError(
                    f"--set run.packets: runs of the comparison have as many as --packets says, and others a multiple "
                    f"of it; give --packets {value.strip()} in its place"
                )
        self._set = [*given, "run.curve=[]"]
        self.resolved = tomllib.loads(api.resolve(asked.scenario, asked.capture, asked.table, self._set))
        # A seed is of all sets alike: replications have theirs from it.
        self._seed = int(self.resolved["run"]["seed"])
        self._set = [override for override in self._set if override.partition("=")[0].strip() != "run.seed"]
        if self.resolved["run"].get("search"):
            raise InputError("run.search: advice searches by itself; leave it out of the scenario")
        if self.resolved["run"].get("sampling"):
            raise InputError(
                "run.sampling: the runs of a comparison are too short for it; leave it out of the scenario"
            )
        self.name = "<text>" if "\n" in os.fspath(asked.scenario) else os.fspath(asked.scenario)
        self.warmup = int(self.resolved["run"].get("warmup") or 0)
        self.runs = self.ran = 0
        self.expected = 0
        """How many runs there will be, about; for progress."""
        # A port and a link to the host that are faster, and what it offers at line rate; what the real one does.
        self._lift: list[str] = []
        self._line = self._port = math.inf
        self._saturated = 0.0
        self._is_calm = False
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Mapping[str, Any]]] = {}
        self.same_for_every_seed = False
        """Whether all seeds turned out to see the same packets, as with a capture."""
        self._engine = (Local if asked.in_processes else Threads)(asked.jobs, held=True)

    def close(self) -> None:
        """Ends the workers."""
        self._engine.close()

    def composing(self, fit: Sequence[Technique]) -> tuple[list[Technique], list[Unfit]]:
        """Techniques that start alone and with all others; those that do not are left out, the last first."""
        kept: list[Technique] = []
        out: list[Unfit] = []
        for each in fit:
            why = techniques.excluded(each, kept)
            if why is not None:
                out.append(Unfit(each.name, each.title, why))
                continue
            for others in (kept, []):
                why = self.why_not([*others, each])
                if why is not None:
                    out.append(Unfit(each.name, each.title, why))
                    break
            else:
                kept.append(each)
        return kept, out

    def where_it_is(self) -> dict[str, Any]:
        """The scenario as it is: its run, its highest rate without loss, and what saturates it."""
        own = self._study("as it is", {"own": []}, [f"run.packets={_OWN}"], 1)[0]
        if own["error"] is not None:
            raise InputError(str(own["error"]))
        _refuse(own, "as it is")
        self._is_calm = own["loss"] == 0
        self.warmup = int(own.get("warmup_packets") or 0)
        row: Mapping[str, Any] = {}
        at_port: Mapping[str, Any] | None = None
        lift = 0
        for factor in _LIFTS:
            lifted = self._lifted(factor)
            offered = {f"x{factor}": [_LINE_RATE, *lifted]}
            (found,) = self._study("saturation", offered, [f"run.packets={self._asked.packets}"], 1)
            if found["error"] is not None:
                if not row:
                    raise InputError(f"at line rate: {found['error']}")
                break  # as far as it goes
            if "loss" not in found:
                raise InputError(
                    f"--packets {self._asked.packets}: too few to lose one at line rate, since rings and NIC memory "
                    f"take them in; give more, or leave it out for {PACKETS}"
                )
            row, lift, self._lift = found, factor, lifted
            at_port = at_port or found
            # What PCIe drops says nothing of the machine behind it.
            if not _is_link_full(row) and (row["loss"] >= _SATURATED or (lift == 1 and row["loss"] > _LIMITED)):
                break
        _refuse(row, "at line rate")
        assert at_port is not None  # the first factor was run, or refused
        self._saturated = float(row["carried_mpps"])
        self._line = float(row["offered_mpps"])
        ndr = self._search([])
        return {
            "carried_mpps": own["carried_mpps"],
            "loss": own["loss"],
            "rejected_share": (own.get("rejected") or 0.0) / max(own.get("packets") or 1.0, 1.0),
            "p99_ns": own.get("sojourn_ns.p99"),
            "energy_nj": own.get("dram.energy_nj_per_packet"),
            "load": own["load"],
            "ndr_mpps": ndr["mpps"],
            "ndr_at_line_rate": ndr["load"] >= 1.0,
            "saturated_mpps": row["carried_mpps"],
            "lift": lift,
            "at_line_mpps": at_port["carried_mpps"],
            "line_mpps": at_port["offered_mpps"],
            "link_share": _link_share(at_port),
            "link_full": _is_link_full(at_port),
            "llc_hits": {"own": own.get("levels.LLC.hit_rate"), "saturated": row.get("levels.LLC.hit_rate")},
            "rings": self._rings,
            "io_bytes": self._io_bytes,
        }

    @property
    def _rings(self) -> dict[str, int]:
        """How many receive rings there are, the descriptors of each, and the mbufs that they hold together."""
        nic, pipeline = self.resolved["nic"], self.resolved.get("pipeline") or {}
        rings = int(pipeline.get("rx_cores", self.resolved["machine"]["cores"])) * int(nic.get("queues_per_core", 1))
        return {"rings": rings, "descriptors": int(nic["rx_descriptors"]), "mbufs": rings * int(nic["rx_descriptors"])}

    @property
    def _io_bytes(self) -> int:
        """What the ways of the LLC that devices may fill hold."""
        llc = self.resolved["machine"]["llc"]
        size = llc["size"]
        whole = int(size) if isinstance(size, int | float) else units.size("machine.llc.size", str(size))
        return whole * units.ways(llc["io_ways"]) // int(llc["ways"])

    def measure(
        self,
        phase: str,
        sets: Sequence[frozenset[str]],
        fit: Sequence[Technique],
        seeds: int,
        own_load: Collection[frozenset[str]],
    ) -> dict[str, Measured]:
        """Responses: log of the rate at saturation; and of sets among `own_load` others at the scenario's own load.

        Those are log of p99, loss, and log of DRAM's energy a packet: NaN where they are not known. What was run in an
        earlier phase is not run again.
        """
        by_name = {each.name: each for each in fit}
        on = [[override for name in sorted(chosen) for override in by_name[name].overrides] for chosen in sets]
        saturated = {f"{place} saturated": [*each, *self._overload] for place, each in enumerate(on)}
        own = {f"{place} own": each for place, each in enumerate(on) if sets[place] in own_load}
        by_case = self._remembered(f"{phase}, saturated", saturated, seeds, self._overload)
        by_case |= self._remembered(phase, own, seeds, ())
        found = {name: np.full((seeds, len(sets)), np.nan) for name in ("rate", "p99", "loss", "energy")}
        wide = {name: np.full(len(sets), np.nan) for name in found}
        for case, runs in by_case.items():
            number, regime = case.split()
            for row in runs:
                at = (int(row["replication"]), int(number))
                if row["error"] is not None:
                    raise InputError(f"with {', '.join(sorted(sets[int(number)])) or 'no technique'}: {row['error']}")
                if regime == "saturated":
                    found["rate"][at] = row["carried_mpps"]
                    wide["rate"][at[1]] = _relative("carried_mpps", row)
                else:
                    wide["loss"][at[1]] = until.within(METRICS["loss"], row) or 0.0
                    wide["p99"][at[1]] = _relative("p99", row)
                    wide["energy"][at[1]] = _relative("dram_energy", row)
                    found["p99"][at] = math.log(max(row.get("sojourn_ns.p99") or 1.0, 1.0))
                    found["loss"][at] = row["loss"]
                    found["energy"][at] = math.log(row.get("dram.energy_nj_per_packet") or math.nan)
        # A set that carries next to nothing would drown all others in the mean of logarithms.
        floor = _FLOOR * (float(np.median(found["rate"])) or self._saturated)
        found["rate"] = np.log(np.maximum(found["rate"], floor))
        if self._is_the_same(by_case.values()):
            self.same_for_every_seed = True
            return {name: Measured(runs, wide[name]) for name, runs in found.items()}
        return {name: Measured(runs) for name, runs in found.items()}

    def at_the_port(self, each_alone: Sequence[Technique], seeds: int) -> Measured:
        """Logs of the rate where line rate is offered at the port and the link as they are: of none, and of each."""
        cases = {str(place): [*on, _LINE_RATE] for place, on in enumerate([(), *(one.overrides for one in each_alone)])}
        by_case = self._remembered("what relieves PCIe", cases, seeds, [_LINE_RATE])
        found, wide = np.full((seeds, len(cases)), np.nan), np.full(len(cases), np.nan)
        for case, runs in by_case.items():
            for row in runs:
                if row["error"] is not None:
                    raise InputError(f"at line rate, with {', '.join(cases[case])}: {row['error']}")
                found[int(row["replication"]), int(case)] = row["carried_mpps"]
                wide[int(case)] = _relative("carried_mpps", row)
        found = np.log(np.maximum(found, _FLOOR * float(np.median(found))))
        return Measured(found, wide if self._is_the_same(by_case.values()) else None)

    def _is_the_same(self, cases: Iterable[Sequence[Mapping[str, Any]]]) -> bool:
        """Whether all seeds of each case see the same packets, as with a capture in rounds."""
        traffic = self.resolved["traffic"]
        in_rounds = bool(traffic.get("capture") and traffic.get("rounds"))
        return in_rounds and all(until.see_the_same(list(runs)) for runs in cases)

    def _remembered(
        self, phase: str, cases: Mapping[str, list[str]], seeds: int, near: Sequence[str]
    ) -> dict[str, list[Mapping[str, Any]]]:
        """Rows of each case, a seed each, as long as a run of the comparison. What is known is not run again."""
        keys = {case: (tuple(on), tuple(near)) for case, on in cases.items()}
        missing = {case: on for case, on in cases.items() if len(self._known.get(keys[case], ())) < seeds}
        found: dict[str, list[Mapping[str, Any]]] = {case: [] for case in missing}
        if missing:
            for row in self._study(phase, missing, [f"run.packets={self._asked.packets}"], seeds, near=near):
                found[str(row["case"])].append(row)
        self._known |= {keys[case]: rows for case, rows in found.items()}
        return {case: self._known[key][:seeds] for case, key in keys.items()}

    def without_loss(
        self, phase: str, sets: Sequence[frozenset[str]], fit: Sequence[Technique], saturated: Runs, first: int = 0
    ) -> Measured:
        """Logs of the highest rate without loss, behind the port that rates at saturation are compared behind.

        `saturated` are logs of these `[replication, set]`, near which the search begins; replications have the seeds
        from number `first` on. A rate passes where no packet is lost, no ring fills, and what waits grows by less than
        a burst a core and the share of the packets to which rates are found: rings that only fill more slowly than a
        trial lasts are no reserve. NaN where packets are lost at any rate. Where all seeds see the same packets, one
        is searched.
        """
        by_name = {each.name: each for each in fit}
        on = [[override for name in sorted(chosen) for override in by_name[name].overrides] for chosen in sets]
        packets = max(self._asked.packets, _LEAST_TRIAL)
        bursts = int(self.resolved["machine"]["cores"]) * int(self.resolved["nic"]["burst"])
        growth = NDR_WITHIN * packets + bursts
        # Rings that an overload has filled are not empty soon at a rate just below it.
        calm = [] if self._is_calm else [*self._lift, _offered(self._saturated / 2, self._line)]
        found = np.full(saturated.shape, np.nan)
        for replication in range(saturated.shape[0]):
            seed = until.seed(self._seed, first + replication)

            def trial(number: int, rates: Mapping[int, float], seed: int = seed) -> dict[int, bool]:
                cases = {
                    str(place): [*on[place], *self._lift, _offered(rate, self._line)] for place, rate in rates.items()
                }
                rows = self._study(
                    f"{phase}, trial {number}", cases, [f"run.packets={packets}"], 1, seed=seed, near=calm
                )
                for row in rows:
                    if row["error"] is not None:
                        raise InputError(f"{phase}, with {', '.join(cases[str(row['case'])])}: {row['error']}")
                return {int(str(row["case"])): _keeps_up(row, growth) for row in rows}

            if replication and self.same_for_every_seed:
                found[replication] = found[0]
                continue
            # Another seed's answer is near the last one's, if there was one.
            last = saturated[0] if replication == 0 else np.where(np.isnan(found[0]), saturated[0], found[0])
            near, step = np.exp(last), lossless.STEP if replication == 0 else 1 + 2 * NDR_WITHIN
            floor = _FLOOR * self._saturated
            rates = lossless.highest(trial, [float(x) for x in near], step, NDR_WITHIN, floor, self._line)
            found[replication] = [math.log(rate) if rate > 0 else math.nan for rate in rates]
        return Measured(found)

    def carries(self, chosen: Sequence[Technique], mpps: float) -> bool:
        """Whether a set carries a rate without loss, and no ring fills, in a run as long as a trial of a search."""
        on = [override for each in chosen for override in each.overrides]
        offer = _offered(mpps, self._port)
        (row,) = self._study("target", {"target": [*on, offer]}, [f"run.packets={self.target_packets}"], 1)
        return row["error"] is None and row["loss"] == 0.0 and not ring_fills(row)

    def confirm(self, chosen: Sequence[Technique], now: Mapping[str, Any]) -> dict[str, Any]:
        """The best set beside the machine as it is, by long runs: rates at saturation known to 1 %, and the NDR.

        On packets of their own: among those that a set was chosen by, the best is partly luck.
        """
        on = [override for each in chosen for override in each.overrides]
        cases = {"as it is": self._overload, "best": [*on, *self._overload]}
        ask = self._ask(cases, [f"run.packets={max(4 * self._asked.packets, _CONFIRMED)}"], near=self._overload)
        ask["set"] = [f"run.seed={until.seed(self._seed, CONFIRMED_FROM)}"]
        found = study.run(
            Ask(**{**ask, "until": [_CONFIRMED_WITHIN], "most_replications": _MOST_CONFIRMED}),
            self._asked.out,
            self._engine,
            progress=self._told("confirmation"),
        )
        self._count(found)
        if (why := next((row["error"] for row in found.rows if row["error"] is not None), None)) is not None:
            raise InputError(f"as the best set was run again: {why}")
        rates = {result["at"]["case"]: result["carried_mpps"] for result in found.document["results"]}
        before, after = (
            (each["mean"], each["mean"] if each["half_width"] is None else each["half_width"])
            for each in (rates[name] for name in cases)
        )
        if before[0] <= 0:
            raise InputError(f"nothing is carried as it is, with other packets: {_why_nothing(found.rows[0])}")
        gain = 100 * (after[0] / before[0] - 1)
        # Of a ratio of independent means, by the sum of squares of relative half-widths.
        wide = 100 * after[0] / before[0] * math.hypot(before[1] / before[0], after[1] / after[0])
        ndr = self._search(chosen) if chosen else {"mpps": now["ndr_mpps"], "load": 0.0}
        return {
            "saturated_mpps": {"before": before[0], "after": after[0]},
            "half_width_mpps": {"before": before[1], "after": after[1]},
            "gain_pct": gain,
            "half_width_pct": wide,
            "runs": len(found.rows),
            "same_packets": all(result["same_packets"] for result in found.document["results"]),
            "ndr_mpps": {"before": now["ndr_mpps"], "after": ndr["mpps"]},
        }

    @property
    def target_packets(self) -> int:
        """Packets of the run that a target is tried in."""
        return max(5 * self._asked.packets, _LEAST_TARGET)

    def command(self, chosen: Sequence[Technique], saturated: bool = False, mpps: float | None = None) -> str:
        """The command line that runs a set; where `saturated` as its rate was compared, or with that rate offered."""
        words = ["wirespeed", "run", self.name]
        for option, given in (("--capture", self._asked.capture), ("--table", self._asked.table)):
            words += [option, os.fspath(given)] if given is not None else []
        given_set = scenarios.overrides(self._asked.set)
        added = [override for each in chosen for override in each.overrides]
        if saturated or mpps is not None:
            # What is offered is said in one way.
            given_set = [each for each in given_set if each.partition("=")[0].strip() not in _OFFERED]
            added += [_LINE_RATE, *self._lift] if saturated else [f"traffic.packet_rate={mpps:.6g} Mpps"]
        # Of a setting that is given twice the last holds: it alone is told.
        last = {override.partition("=")[0].strip(): override for override in [*given_set, *added]}
        words += [text for override in last.values() for text in ("--set", override)]
        return shlex.join(words)

    def target(self, text: str) -> float:
        """A wanted rate in Mpps. Raises InputError for what is no rate, or is more than the port carries."""
        found = units.rate("--target", text)
        (row,) = self._study("line rate", {"line": ["traffic.load=1.0"]}, [f"run.packets={_AT_LINE}"], 1)
        if row["error"] is not None:
            raise InputError(str(row["error"]))
        line, line_gbps = float(row["offered_mpps"]), _gbps(self.resolved["nic"]["rate"])
        self._port = line
        mpps = found.value / 1e6 if found.kind == "packets" else found.value / 1e9 / line_gbps * line
        if mpps > line * 1.001:
            raise InputError(
                f"--target {text}: is more than the port's line rate, {quantities.mpps(line)} or {line_gbps:g} Gbps of "
                "this traffic; give less, or raise nic.rate"
            )
        return min(mpps, line)

    def _search(self, chosen: Sequence[Technique]) -> dict[str, float]:
        on = [override for each in chosen for override in each.overrides]
        fixed = ["run.search=ndr", "run.search_resolution=0.01", f"run.packets={_SEARCHED}"]
        if self.resolved["run"].get("search_packets") is None:
            fixed.append(f"run.search_packets={_SEARCH_TRIAL}")
        (row,) = self._study("NDR", {"ndr": on}, fixed, 1)
        if row["error"] is not None:
            raise InputError(str(row["error"]))
        return {"mpps": float(row["search.mpps"]), "load": float(row["search.load"])}

    def _study(
        self,
        phase: str,
        cases: Mapping[str, list[str]],
        fixed: list[str],
        seeds: int,
        seed: int | None = None,
        near: Sequence[str] = (),
    ) -> Sequence[Mapping[str, Any]]:
        ask = self._ask(cases, fixed, near)
        ask["set"] = ask["set"] if seed is None else [f"run.seed={seed}"]
        found = study.run(Ask(**ask, replications=seeds), self._asked.out, self._engine, progress=self._told(phase))
        self._count(found)
        return found.rows

    @property
    def _overload(self) -> list[str]:
        """What offers line rate behind the port that rates at saturation are compared behind."""
        return [_LINE_RATE, *self._lift]

    def _ask(self, cases: Mapping[str, list[str]], fixed: list[str], near: Sequence[str] = ()) -> dict[str, Any]:
        """Sets of techniques, all near the machine as it is, with `near` behind the port and at the rate of that."""
        # All in the bundles, where a later setting replaces an earlier one: the user's own comes first.
        return {
            "scenario": self._asked.scenario,
            "set": [f"run.seed={self._seed}"],
            "cases": {name: [*self._set, *fixed, *bundle] for name, bundle in cases.items()},
            "capture": self._asked.capture,
            "table": self._asked.table,
            "near": [*self._set, f"run.packets={_OWN}", *near],
        }

    def _told(self, phase: str) -> Callback | None:
        told = self._asked.progress
        if told is None:
            return None
        before = self.runs

        def tell(_: str, done: int, total: int, note: str) -> None:
            told("advice", before + done, max(self.expected, before + total), f"{phase} {note}".rstrip())

        return tell

    def _count(self, found: study.Study) -> None:
        self.runs += len(found.rows)
        self.ran += found.ran
        self._asked.refused.extend(found.refused)

    def why_not(self, chosen: Sequence[Technique]) -> str | None:
        """Why a set does not start; None where it does."""
        on = [override for each in chosen for override in each.overrides]
        try:
            api.resolve(self._asked.scenario, self._asked.capture, self._asked.table, [*self._set, *on])
        except InputError as e:
            return str(e)
        return None

    def _lifted(self, factor: int) -> list[str]:
        """A port and a link to the host that are so many times as fast."""
        if factor == 1:
            return []
        nic = self.resolved["nic"]
        rates = {"nic.rate": nic["rate"], "nic.pcie.rate": nic["pcie"]["rate"]}
        return [f'{path}="{_gbps(rate) * factor:g} Gbps"' for path, rate in rates.items()]


def _offered(mpps: float, line: float) -> str:
    """A rate as a share of line rate: that is nominal, and what runs of it offer, as `line`, differs by chance."""
    return f"traffic.load={min(mpps / line, 1.0):.9f}"


def _keeps_up(row: Mapping[str, Any], growth: float) -> bool:
    """Whether nothing is lost, no ring fills, and what waits anywhere grows by no more packets than that.

    What is left from the beginning may go down slowly near saturation, and is no sign of overload. A run too short to
    tell does not keep up.
    """
    more = waits_more(row)
    return row["loss"] == 0.0 and not ring_fills(row) and more is not None and more <= growth


def _relative(name: str, row: Mapping[str, Any]) -> float:
    """The half-width of a metric by the batches of its run, as a share of it: of its logarithm. Unknown it counts as 1.

    A quantile is not bounded where too few packets were seen.
    """
    metric = METRICS[name]
    wide, value = until.within(metric, row), row.get(metric.column)
    return min(wide / value, 1.0) if wide is not None and value else 1.0


def _link_share(row: Mapping[str, Any]) -> float | None:
    """How full the fuller way of PCIe is, 0 to 1; None where it is not known."""
    ways = (row.get("pcie.to_host_link_gbps"), row.get("pcie.from_host_link_gbps"))
    known, rate = [float(way) for way in ways if way is not None], row.get("pcie.rate_gbps")
    return max(known) / float(rate) if known and rate else None


def _is_link_full(row: Mapping[str, Any]) -> bool:
    """Whether PCIe is what loses packets."""
    return row["loss"] > _LIMITED and (_link_share(row) or 0.0) >= _LINK_FULL


def _refuse(row: Mapping[str, Any], when: str) -> None:
    """Raises InputError for traffic that the machine does not carry: there is nothing to compare."""
    rejected = sum(row.get(f"drops.{name}") or 0.0 for name in _NOT_CARRIED)
    carried = row.get("carried_mpps") or 0.0
    if carried > 0 and rejected <= _MOST_REJECTED * float(row.get("packets") or 1.0):
        return
    what = "nothing" if carried <= 0 else "little"
    raise InputError(f"{what} is carried {when}: {_why_nothing(row)}")


def _why_nothing(row: Mapping[str, Any]) -> str:
    """The reason that most packets are not carried for, and what to do."""
    packets = float(row.get("packets") or 0.0)
    drops = {name.partition(".")[2]: value for name, value in row.items() if name.startswith("drops.") and value}
    if not packets or not drops:
        return "no packet was measured: the traffic ends within the warm-up; give more of it, or set run.warmup"
    reason = max(drops, key=lambda name: float(drops[name]))
    share = quantities.share(float(drops[reason]) / packets)
    remedy = "`wirespeed run` says what to change"
    if reason == "no_route":
        remedy = "give the routing table of this traffic with --table, or packets a route with --routes rewrite"
    elif reason in _NOT_CARRIED:
        remedy = "`wirespeed inspect` shows what the capture holds"
    return f"{share} of the packets are dropped for {reason} ({_REASONS.get(reason, reason)}); {remedy}"


def _gbps(rate: object) -> float:
    """A rate of a resolved scenario: a number of Gbps, or text such as `100 Gbps`."""
    if isinstance(rate, int | float):
        return float(rate)
    return units.rate("nic.rate", str(rate)).value / 1e9
