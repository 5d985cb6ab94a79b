"""Advice: designs of resolution IV, effects that are found again, techniques that compose, and advice that holds."""

import io
import itertools
import json
import re
import shlex
import struct
import tomllib
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import documents
import smaller
import wirespeed
from wirespeed import api, terminal
from wirespeed.advise import advice as advice_of
from wirespeed.advise import bench, factorial, lossless, page, techniques, text
from wirespeed.sweep import Ask, Plan, metrics
from wirespeed.sweep import engine as engines

# One core, a small table and a small pool: saturated by the port as it is, and quick to fill.
SMALL = {
    "machine.cores": 1,
    "function.forward.prefixes": 1000,
    "traffic.profile": "min64",
    "traffic.load": 0.1,
    "mempool.size": 8192,
    "run.warmup": 12_000,
    "run.search_packets": 30_000,
}


def test_a_single_technique_has_an_effect_and_no_interactions():
    design = factorial.full(1)
    responses = np.array([[1.0, 3.0], [1.0, 3.0]])
    assert [effect.value for effect in factorial.effects(design, responses, [[0]])] == [2.0]
    assert factorial.effects(design, responses, []) == []


def test_where_there_are_no_interactions_few_designs_show_any():
    design = factorial.fractional(9)
    pairs = [list(group[0]) for group in design.aliases()]
    drawn = np.random.default_rng(2).normal(size=(1000, 2, len(design.on)))
    shown = [any(each.is_sure for each in factorial.effects(design, runs, pairs, together=True)) for runs in drawn]
    assert 0.02 < np.mean(shown) < 0.07
    alone = [any(each.is_sure for each in factorial.effects(design, runs, pairs)) for runs in drawn[:100]]
    assert np.mean(alone) > 0.3, "what it is for"


def test_a_seed_of_the_command_line_is_that_of_every_set_but_not_of_the_confirmation():
    of = bench.Bench(bench.Asked("forwarding", set={**SMALL, "run.seed": 7}))
    ask = of._ask({"own": []}, ["run.packets=2000"])
    assert ask["set"] == ["run.seed=7"]
    plan = Plan(Ask(**ask, replications=2))
    assert plan.seed(0, 0) == 7
    of.close()


def test_what_a_technique_does_alone_is_within_its_interval_as_often_as_it_says():
    drawn = np.random.default_rng(1).normal(scale=0.01, size=(4000, 2, 11))
    found = [advice_of.against(responses, 1, pooled=True) for responses in drawn]
    covered = np.mean([abs(each["pct"]) <= each["half_width_pct"] for each in found])
    assert 0.94 < covered < 0.96


def test_two_sets_of_two_seeds_borrow_the_chance_of_others_of_their_kind():
    rng = np.random.default_rng(6)
    covered = {False: 0, True: 0}
    widths = {False: [], True: []}
    for _ in range(2000):
        responses, others = (rng.normal(scale=0.01, size=(2, sets)) + rng.normal(size=(2, 1)) for sets in (2, 5))
        for borrows in covered:
            found = advice_of.against(responses, 1, pooled=borrows, beside=others)
            covered[borrows] += abs(found["pct"]) <= found["half_width_pct"]
            widths[borrows].append(found["half_width_pct"])
    assert covered[True] / 2000 == pytest.approx(0.95, abs=0.02)
    assert np.median(widths[True]) < 0.5 * np.median(widths[False])
    # What says nothing is left out.
    one = advice_of.against(responses, 1, pooled=True, beside=others[:, :1])
    assert one == advice_of.against(responses, 1, pooled=True)


def test_a_set_whose_rate_wanders_has_a_wider_interval_than_one_whose_does_not():
    rng = np.random.default_rng(3)
    wild = np.array([10.0 if place >= 12 else 1.0 for place in range(20)])
    covered = {12: [], 1: []}
    for _ in range(2000):
        responses = rng.normal(size=(2, 20)) * wild * 0.003 + rng.normal(scale=0.05, size=(2, 1))
        for place, of in covered.items():
            found = advice_of.against(responses, place, pooled=True)
            of.append(abs(found["pct"]) <= found["half_width_pct"])
    # Two seeds say little of one set: some of it is what the others are like.
    assert np.mean(covered[12]) > 0.85
    assert np.mean(covered[1]) > 0.95
    alike = np.full(20, 0.003**2)
    assert factorial.moderated(alike, 1) == (pytest.approx(alike), 20.0)
    assert factorial.moderated(np.zeros(5), 1)[0].max() == 0.0


def test_effects_of_a_single_replication_have_lenths_intervals():
    design = factorial.fractional(16)
    rng = np.random.default_rng(4)
    true = np.zeros(16)
    true[3] = 0.3
    covered = found = shown = 0
    for _ in range(400):
        runs = (design.on @ true + rng.normal(scale=0.05, size=len(design.on)))[None, :]
        effects = factorial.effects(design, runs, [[i] for i in range(16)])
        covered += sum(abs(e.value - w) <= e.half_width for e, w in zip(effects, true, strict=True))
        found += effects[3].is_sure
        shown += sum(e.is_sure for place, e in enumerate(effects) if place != 3)
    assert 0.93 < covered / (400 * 16) < 0.98
    assert found == 400
    assert shown / (400 * 15) < 0.07


@pytest.mark.parametrize("factors", [1, 2, 4, 5, 8, 9, 12, 16, 17])
def test_a_design_has_resolution_iv(factors):
    design = factorial.fractional(factors)
    signs = np.where(design.on, 1, -1)
    runs = len(signs)
    assert not design.on[0].any()
    # Columns are balanced and orthogonal, and none is the product of two others.
    assert (signs.T @ signs == runs * np.eye(factors)).all()
    assert (signs.sum(axis=0) == 0).all()
    for i, j in itertools.combinations(range(factors), 2):
        assert not (signs.T @ (signs[:, i] * signs[:, j])).any()


def test_interactions_are_told_apart_in_a_full_design_and_grouped_in_a_fraction():
    assert all(len(pairs) == 1 for pairs in factorial.full(4).aliases())
    design = factorial.fractional(6)
    signs = np.where(design.on, 1, -1)
    for pairs in design.aliases():
        columns = {tuple(signs[:, i] * signs[:, j]) for i, j in pairs}
        assert len(columns) == 1
    assert sum(len(pairs) for pairs in design.aliases()) == 15


def test_effects_of_a_known_model_are_found_within_their_intervals():
    design = factorial.fractional(9)
    true = np.linspace(-0.4, 0.4, 9)
    rng = np.random.default_rng(5)
    covered = total = 0
    for _ in range(100):
        # A replication has a level of its own, as a seed has.
        mean = design.on @ true + 0.3 * (design.on[:, 0] & design.on[:, 1])
        runs = np.array([mean + rng.normal(0, 0.05, len(mean)) + rng.normal() for _ in range(2)])
        found = factorial.effects(design, runs, [[i] for i in range(9)])
        # Half of the interaction belongs to the main effects of both: each is the mean over the other.
        wanted = true + np.array([0.15, 0.15] + [0] * 7)
        covered += sum(abs(e.value - w) <= e.half_width for e, w in zip(found, wanted, strict=True))
        total += 9
    assert 0.92 <= covered / total <= 0.98


def resolved(scenario="forwarding", **settings):
    return tomllib.loads(api.resolve(scenario, set=settings or None))


@pytest.mark.parametrize("within", [0.005, 0.01, 0.1])
def test_the_highest_rate_that_passes_is_found_to_the_share_from_any_guess(within):
    truths = [0.5, 1.0, 3.7, 58.81, 68.2, 146.9, 147.0, 900.0]
    rounds = []

    def trial(number, rates):
        rounds.append(number)
        assert all(1.0 <= rate <= 147.0 for rate in rates.values())
        return {place: rate <= truths[place] for place, rate in rates.items()}

    for guess in (0.1, 1.0, 60.0, 147.0, 1e4):
        rounds.clear()
        found = lossless.highest(trial, [guess] * len(truths), lossless.STEP, within, 1.0, 147.0)
        # All at the same time, so in few rounds; what not even the floor passes has no answer.
        assert rounds == list(range(1, len(rounds) + 1))
        assert len(rounds) <= 16
        for rate, truth in zip(found, truths, strict=True):
            if truth < 1.0:
                assert rate == 0.0
            else:
                assert rate <= min(truth, 147.0) <= rate * (1 + within)


def test_a_queue_that_only_fills_is_not_kept_up_with():
    row = {"loss": 0.0, "offered_mpps": 50.0, "batches.mean.growth": 4000.0}  # 200 packets by Little's law
    assert bench._keeps_up(row, 200)
    assert not bench._keeps_up(row, 199)
    assert not bench._keeps_up({**row, "loss": 1e-6}, 200)
    assert bench._keeps_up({**row, "batches.mean.growth": -4000.0}, 0)
    assert bench._keeps_up({**row, "ring_growth": 0.0}, 200)
    assert not bench._keeps_up({**row, "ring_growth": 0.004}, 200)
    assert not bench._keeps_up({"loss": 0.0, "offered_mpps": 50.0}, 200)
    means = [2000.0, 2100.0, 2500.0, 3000.0, 3500.0, 4000.0, 5900.0, 6100.0]
    assert metrics.columns({"batches": {"mean": means}}) == {"batches.mean.growth": 6000.0 - 2050.0}


def test_the_share_to_which_rates_without_loss_are_found_is_in_their_intervals():
    same = bench.Measured(np.log([[50.0, 60.0], [50.0, 60.0], [50.0, 60.0]]))
    found = advice_of._against_ndr(same, 1)
    assert found["pct"] == pytest.approx(20)
    assert found["half_width_pct"] == pytest.approx(120 * bench.NDR_WITHIN)
    apart = bench.Measured(np.log([[50.0, 60.0], [51.0, 60.5], [49.0, 60.0]]))
    assert advice_of._against_ndr(apart, 1)["half_width_pct"] > advice_of.against(apart.runs, 1)["half_width_pct"]


def test_a_set_that_loses_packets_at_any_rate_has_no_gain_and_is_shown_without(advice):
    lost = bench.Measured(np.log([[50.0, np.nan, 60.0], [51.0, 58.0, 61.0]]))
    assert advice_of._against_ndr(lost, 1, pooled=True) is None
    assert advice_of._against_ndr(lost, 2, pooled=True)["pct"] == pytest.approx(19.8, abs=0.1)
    _, _, found = advice
    document = json.loads(json.dumps(found.document))
    document["techniques"][0]["alone"]["ndr"] = None
    document["now"] |= {"lifted_ndr_mpps": None, "lift": 2}
    nothing = {"before": None, "after": None, "pct": None, "half_width_pct": None}
    document["best"]["confirmed"]["lifted_ndr"] = nothing
    assert any("without loss none" in line for line in text.now(document))
    assert "without loss none and none, –" in text.confirmation(document)
    assert text.ranked(document)[1][0][3] == "–"
    assert page.page(document).count("<svg") == 3


def test_the_command_of_the_comparison_says_once_how_much_is_offered():
    for given in ("traffic.rate=100 Gbps", "traffic.load=0.5", "traffic.packet_rate=5 Mpps"):
        of = bench.Bench(bench.Asked("forwarding", set=[given, "nic.ports=2"], jobs=1))
        of.close()
        words = shlex.split(of.command([], saturated=True))
        overrides = [word for before, word in itertools.pairwise(words) if before == "--set"]
        assert overrides == ["nic.ports=2", "traffic.load=1.0"]
        assert "load = 1.0" in wirespeed.resolve("forwarding", set=overrides)
        assert given in shlex.split(of.command([]))


def test_what_brings_more_without_loss_than_the_best_set_is_told(advice):
    _, _, found = advice
    document = json.loads(json.dumps(found.document))
    best = document["best"]["techniques"]
    other = next(each for each in document["techniques"] if each["name"] not in best)
    other["alone"]["ndr"] = {"pct": 500.0, "half_width_pct": 1.0}
    assert text.without_loss(document).startswith(f"{other['name']} alone brings more without loss (+500.0")
    assert text.without_loss(document) in page.page(document)
    for each in document["techniques"]:
        each["alone"]["ndr"] = {"pct": 0.0, "half_width_pct": 1.0}
    assert text.without_loss(document) is None


def test_rates_up_to_line_rate_can_be_offered_whatever_the_seed(tmp_path):
    # Of frames of mixed sizes a run at line rate offers a little more or less than the nominal rate.
    of = bench.Bench(bench.Asked("forwarding", set={**SHORT, "run.seed": 3}, packets=5000, jobs=1))
    try:
        (row,) = of._study("line", {"line": ["traffic.load=1.0"]}, ["run.packets=5000"], 1)
        of._line = of._port = float(row["offered_mpps"])
        for share in (0.998, 0.9999, 1.0):
            (row,) = of._study("x", {"x": [bench._offered(share * of._line, of._line)]}, ["run.packets=5000"], 1)
            assert row["error"] is None
            assert row["offered_mpps"] == pytest.approx(share * of._line, rel=1e-2)
    finally:
        of.close()


@pytest.mark.parametrize("scenario", ["forwarding", "forwarding-64b", "upf", "upf-pipeline", "vhost"])
def test_every_technique_that_fits_starts_alone_and_with_all_others(scenario):
    fit, unfit = techniques.fitting(resolved(scenario))
    assert len(fit) >= 8
    assert all(each.why for each in unfit)
    for each in fit:
        api.resolve(scenario, set=each.overrides)
    kept, clashing = bench.Bench(bench.Asked(scenario)).composing(fit)
    assert {each.name for each in clashing} <= {
        "bisected_ring",
        "drop_dead",
        "elastic_nic",
        "flow_credits",
        "gpu_card",
        "near_slice",
        "nic_payload",
    }
    assert all(each.why.startswith("not with ") for each in clashing)
    api.resolve(scenario, set=[override for each in kept for override in each.overrides])


def test_a_gpu_is_tried_where_it_is_asked_for_and_costs_shader_cores():
    fit, _ = techniques.fitting(resolved())
    unasked = techniques.left_out([], [], fit)
    assert [each.name for each in unasked] == ["gpu", "gpu_card"]
    assert unasked[0].why.endswith("--with gpu tries it")
    (out,) = techniques.left_out(["core"], ["gpu", "gpu_card"], fit)
    assert out.name == "core"
    with pytest.raises(wirespeed.InputError, match="--with core: must be one of gpu, gpu_card"):
        techniques.left_out([], ["core"], fit)
    by_name = {each.name: each for each in fit}
    assert by_name["gpu"].cost.words == "8 shader cores"
    assert techniques.excluded(by_name["gpu_card"], [by_name["gpu"]])
    # Of a chain it has the end that has a form for a warp.
    of = {"kind": "chain", "chain": ["check", "firewall", "lookup", "ttl"]}
    (gpu,) = (each for each in techniques.fitting({**resolved(), "function": of})[0] if each.name == "gpu")
    assert 'machine.gpu.functions=["lookup", "ttl"]' in gpu.overrides
    of = {"kind": "chain", "chain": ["check", "firewall"]}
    whys = {each.name: each.why for each in techniques.fitting({**resolved(), "function": of})[1]}
    assert whys["gpu"] == "firewall, the chain's last function, has no form for a warp"


def test_what_relieves_pcie_keeps_the_settings_that_a_user_gives_of_the_driver():
    by_name = {each.name: each for each in techniques.fitting(resolved())[0]}
    assert by_name["long_reads"].overrides == ("nic.pcie.max_read=4096",)
    assert "compressed" not in by_name
    given = {"nic.driver": "mlx5", "nic.driver.tx_copied": 64, "nic.pcie.max_read": 4096}
    fit, unfit = techniques.fitting(resolved(**given))
    assert "long_reads" in {each.name for each in unfit}
    (compressed,) = (each for each in fit if each.name == "compressed")
    text = api.resolve("forwarding", set=[*(f"{path}={value}" for path, value in given.items()), *compressed.overrides])
    driver = tomllib.loads(text)["nic"]["driver"]
    whole = tomllib.loads(api.resolve("forwarding", set=["nic.driver=mlx5-compressed"]))["nic"]["driver"]
    assert driver == whole | {"preset": "mlx5", "tx_copied": 64}


def relieves(name, kind, pct, half_width=0.2):
    return {
        "name": name,
        "title": name.replace("_", " "),
        "kind": kind,
        "set": [],
        "rate": {"pct": pct, "half_width_pct": half_width},
        "command": f"run {name}",
    }


def test_pcie_that_is_full_is_told_first_with_the_cheapest_that_relieves_it_and_what_does_most(advice):
    _, _, found = advice
    document = json.loads(json.dumps(found.document))
    assert document["relief"] is None
    document["now"] |= {"ndr_at_line_rate": False, "lift": 8, "link_full": True, "link_share": 1.0}
    document["now"] |= {"at_line_mpps": 16.8, "line_mpps": 18.4}
    tried = [relieves("long_reads", "setting", 1.3), relieves("faster_link", "hardware", 9.5)]
    document["relief"] = tried
    told = text.headline(document)
    assert told.startswith(
        "PCIe is full at 16.8 of 18.4 Mpps: long reads (a setting), +1.3 ± 0.2 %, or faster link (new hardware), "
        "+9.5 ± 0.2 %. Behind a link and a port 8 times as fast, "
    )
    assert "At the port and the link that there are: long reads +1.3 ± 0.2 %, faster link +9.5 ± 0.2 %." in text.now(
        document
    )
    assert any(line.startswith("PCIe is full before the machine is (100 %)") for line in text.now(document))
    assert text.commands(document)[0][1] == "run long_reads"
    assert "PCIe is full" in page.page(document)
    document["relief"] = [relieves("long_reads", "setting", 0.3), relieves("faster_link", "hardware", 9.5)]
    assert ": faster link (new hardware), +9.5 ± 0.2 %. Behind" in text.headline(document)
    document["relief"] = [relieves("long_reads", "setting", 0.1)]
    assert "and nothing that was tried relieves it. Behind" in text.headline(document)
    document["relief"] = tried
    document["goal"] = "p99"
    assert "PCIe" not in text.headline(document)
    assert all("PCIe" not in label for label, _ in text.commands(document))


def test_techniques_are_compared_behind_a_link_that_is_not_full_and_relief_at_the_one_that_is():
    # 10 Gbps for a port of 25: what the machine itself does shows behind a faster one alone.
    asked = {**SMALL, "traffic.load": 0.1, "nic.rate": "25 Gbps", "nic.pcie.rate": "10 Gbps"}
    fit, _ = techniques.fitting(resolved(**asked))
    without = [each.name for each in fit if each.name not in ("long_bursts", "core", "nic_payload")]
    document = wirespeed.advise("forwarding", set=asked, without=without, packets=10_000, target="9 Mpps").document
    now = document["now"]
    assert now["link_full"]
    assert now["link_share"] > 0.95
    assert now["lift"] > 1
    assert now["at_line_mpps"] < 0.7 * now["saturated_mpps"]
    relief = {each["name"]: each for each in document["relief"]}
    assert set(relief) == {"nic_payload", "faster_link"}
    assert relief["faster_link"]["rate"]["pct"] == pytest.approx(100, abs=10)
    assert relief["faster_link"]["set"] == ['nic.pcie.rate="20 Gbps"']
    # The target is more than the link carries, and less than one twice as fast does.
    assert document["target"]["met"]
    assert "faster_link" in document["target"]["techniques"]
    assert "nic.pcie.rate" in document["target"]["command"]


def test_what_was_run_in_an_earlier_phase_is_not_run_again():
    of = bench.Bench(bench.Asked("forwarding", set=SMALL, packets=4000, jobs=1))
    fit = [each for each in techniques.fitting(of.resolved)[0] if each.name == "long_bursts"]
    try:
        sets = [frozenset(), frozenset({"long_bursts"})]
        first = of.measure("one", sets, fit, 2, sets)
        assert of.runs == 8
        again = of.measure("two", sets[::-1], fit, 2, sets[:1])
        assert of.runs == 8
        assert (again["rate"].runs[:, ::-1] == first["rate"].runs).all()
        # What is not asked for is not known, though it was run.
        assert np.isnan(again["p99"].runs[:, 0]).all()
        assert (again["p99"].runs[:, 1] == first["p99"].runs[:, 0]).all()
    finally:
        of.close()


def test_of_many_changes_that_are_looked_at_one_helps_only_beyond_the_chance_of_all():
    def ranked(pct, count):
        others = [{"kind": "setting", "alone": {"rate": {"pct": 0.0, "half_width_pct": 1.0}}}] * (count - 1)
        return [*others, {"kind": "setting", "alone": {"rate": {"pct": pct, "half_width_pct": 1.0}}}]

    assert len(techniques.helps(ranked(1.1, 1), "rate")) == 1
    assert techniques.helps(ranked(1.1, 24), "rate") == []
    assert len(techniques.helps(ranked(1.6, 24), "rate")) == 1
    assert not techniques.surely({"pct": 0.4, "half_width_pct": 0.0}, 1, 1), "not worth a change"
    assert not techniques.surely(None, 1, 1)
    few = {"pct": 2.0, "half_width_pct": 1.0, "degrees": 3.0}
    assert not techniques.surely(few, 1, 24), "of few degrees all together are much wider than each"
    assert techniques.surely(few | {"degrees": None}, 1, 24)
    assert techniques.surely({"pct": -0.4, "half_width_pct": 0.03}, -1, 24, 0.005), "0.4 points of loss are worth it"
    rng = np.random.default_rng(11)
    wrong = []
    for _ in range(1000):
        runs = rng.normal(scale=0.05, size=(2, 25)) + rng.normal(size=(2, 1))
        found = [advice_of.against(runs, place, pooled=True) for place in range(1, 25)]
        wrong.append(any(techniques.surely(each, 1, 24) for each in found))
    # Of none that changes anything one seems to in fewer than one in forty, one of both sides; all share one base.
    assert 0.003 < np.mean(wrong) < 0.04


class Carries:
    """Stands for a bench: a set carries a target with one of these techniques, and two of them do not go together."""

    def __init__(self, relief):
        self.relief, self.tried = relief, []

    def carries(self, chosen, mpps):
        self.tried.append([each.name for each in chosen])
        return any(each.name in self.relief for each in chosen)

    def why_not(self, chosen):
        names = {each.name for each in chosen}
        return "both" if {"packet_buffer", "nic_payload"} <= names else None

    def command(self, chosen):
        return " ".join(each.name for each in chosen)


def test_a_target_behind_a_link_that_is_full_is_tried_with_what_relieves_it():
    of = resolved()
    fit = [each for each in techniques.fitting(of)[0] if not each.name.startswith("gpu")]
    everything = [*fit, techniques.faster_link(of)]
    gains = {each.name: 0.01 for each in everything}
    found = advice_of._cheapest(Carries({"faster_link"}), everything, gains, 18.0, {"faster_link", "nic_payload"})
    assert found["met"]
    assert found["techniques"] == ["faster_link"]
    assert all(set(each["techniques"]) & {"faster_link", "nic_payload"} for each in found["tried"])
    # Sets that do not start are none, and take nobody's turn.
    of_both = [each for each in everything if each.name in ("packet_buffer", "nic_payload")]
    stand = Carries({"packet_buffer"})
    found = advice_of._cheapest(stand, of_both, gains, 18.0, ())
    assert found["met"]
    assert all(len(each) < 2 for each in stand.tried)


def test_of_sets_that_lose_at_any_rate_none_is_the_best_and_what_is_advised_is_known(monkeypatch):
    of = bench.Bench(bench.Asked("forwarding", set=SMALL, jobs=1))
    fit = {each.name: each for each in techniques.fitting(of.resolved)[0]}
    best = [fit[name] for name in ("short_rings", "wide_io", "hot_mbufs", "long_bursts")]
    own = set()

    def measure(phase, sets, on, seeds, own_load):
        own.update(own_load)
        # All but alike: sixteen sets, of which one of settings alone is the cheapest.
        logs = np.array([[0.3 + 0.0001 * len(each) for each in sets]] * seeds)
        logs[:, 0] = 0.0
        known = np.array([[0.0 if each in own_load else np.nan for each in sets]] * seeds)
        return {"rate": bench.Measured(logs)} | {name: bench.Measured(known) for name in ("p99", "loss", "energy")}

    def without_loss(phase, sets, on, saturated):
        return bench.Measured(np.where([[{"hot_mbufs", "wide_io"} <= each for each in sets]], np.nan, saturated))

    monkeypatch.setattr(of, "measure", measure)
    monkeypatch.setattr(of, "without_loss", without_loss)
    for goal in ("ndr", "rate"):
        own.clear()
        found = advice_of._combined(of, best, goal, {})
        assert found["best"]["p99"] is not None
        assert found["best"]["loss"] is not None
        assert frozenset(found["best"]["techniques"]) in own
        heads, rows = text.combinations({"combinations": found["sets"], "goal": goal})
        assert len(rows) == 16
        assert "p99" in heads
    lost = [each for each in advice_of._combined(of, best, "ndr", {})["sets"] if each["ndr"] is None]
    assert len(lost) == 4
    assert all({"hot_mbufs", "wide_io"} <= set(each["techniques"]) for each in lost)
    of.close()


def test_a_technique_that_is_on_already_does_not_fit():
    settings = {"mempool.kind": "lifo", "nic.burst": 64, "policy.kind": "iat"}
    fit, unfit = techniques.fitting(resolved(**settings))
    assert {"hot_mbufs", "long_bursts", "allocator", "wide_io"} <= {each.name for each in unfit}
    assert not {"hot_mbufs", "long_bursts", "allocator", "wide_io"} & {each.name for each in fit}


def test_two_forms_of_one_ring_are_not_tried_together_and_a_nic_without_completions_gets_some():
    fit, _ = techniques.fitting(resolved())
    by_name = {each.name: each for each in fit}
    assert by_name["shared_ring"].overrides == ("nic.rings=shared", "nic.driver.rx_completion=32")
    reason = techniques.excluded(by_name["bisected_ring"], [by_name["shared_ring"]])
    assert reason == "not with shared_ring: both set nic.rings (--without shared_ring tries it)"
    assert techniques.excluded(by_name["bisected_ring"], [by_name["drop_dead"]]) is None
    told = techniques.fitting(resolved(**{"nic.driver": "mlx5"}))[0]
    assert {each.name: each for each in told}["bisected_ring"].overrides == ("nic.rings=bisected",)


def test_programs_beside_the_packets_are_held_where_no_class_names_them():
    beside = {"neighbours": [{"name": "hog", "working_set": "64 MiB"}, {"name": "hog", "working_set": "1 MiB"}]}
    (held,) = (each for each in techniques.fitting(resolved(**beside))[0] if each.name == "held")
    assert held.overrides == ('machine.clos.7={ways=11,neighbours=["hog"],bandwidth="1 GB/s"}',)
    (kept,) = (
        each
        for each in techniques.fitting(resolved(**beside, **{"machine.llc.core_ways": 2}))[0]
        if each.name == "held"
    )
    assert "ways=2," in kept.overrides[0]
    api.resolve("forwarding", set=['neighbours=[{name="hog", working_set="64 MiB"}]', *held.overrides])
    for settings in (
        {},
        beside | {"policy.kind": "iat"},
        beside | {"machine.clos.2": {"ways": 2, "neighbours": ["hog"]}},
    ):
        assert "held" in {each.name for each in techniques.fitting(resolved(**settings))[1]}


def test_direct_cache_access_is_switched_off_for_storage_alone():
    drive = {"name": "nvme", "kind": "storage", "rate": "48 Gbps"}
    hog = {"name": "hog", "working_set": "64 MiB"}
    (past,) = (each for each in techniques.fitting(resolved(neighbours=[hog, drive]))[0] if each.name == "storage_past")
    assert past.kind == "setting"
    assert past.cost == techniques.Cost()
    settled = tomllib.loads(api.resolve("forwarding", set=list(past.overrides)))["neighbours"]
    assert settled[1]["dca"] is False
    assert "dca" not in settled[0]
    assert (settled[1]["name"], settled[1]["rate"], settled[0]["working_set"]) == ("nvme", "48 Gbps", "64 MiB")
    for settings in (
        {"neighbours": [hog]},
        {"neighbours": [drive | {"dca": False}]},
        {"neighbours": [drive], "machine.llc.io_ways": 0},
    ):
        assert "storage_past" in {each.name for each in techniques.fitting(resolved(**settings))[1]}


def test_a_technique_that_does_not_fit_may_be_left_out_all_the_same():
    fit, unfit = techniques.fitting(resolved(**{"mempool.size": 8192}))
    assert "small_pool" in {each.name for each in unfit}
    assert [each.name for each in techniques.left_out(["small_pool", "core"], ["gpu", "gpu_card"], fit)] == ["core"]


def test_cheaper_is_no_new_chip_then_no_core_then_no_way_then_fewer_settings():
    by_name = {each.name: each for each in techniques.fitting(resolved())[0]}

    def order(*names):
        return techniques.order([by_name[name] for name in names])

    assert order() < order("long_bursts") < order("long_bursts", "hot_mbufs") < order("wide_io") < order("core")
    assert order("core", "wide_io") < order("hash") < order("io_age")


@pytest.fixture(scope="module")
def advice(tmp_path_factory):
    folder = tmp_path_factory.mktemp("advice")
    kept = ["short_rings", "hot_mbufs", "long_bursts", "core"]
    fit, _ = techniques.fitting(resolved(**SMALL))
    without = [each.name for each in fit if each.name not in kept]
    asked = {"set": SMALL, "without": without, "packets": 16_000, "target": "24 Mpps"}
    found = wirespeed.advise("forwarding", **asked, out=folder)
    return folder, asked, found


def test_a_core_more_pays_on_a_machine_that_lacks_cores(advice):
    _, _, found = advice
    assert "core" in found.document["best"]["techniques"]
    core = next(each for each in found.document["techniques"] if each["name"] == "core")
    assert core["rate"]["sure"]
    assert core["rate"]["pct"] > 50
    assert core["alone"]["rate"]["pct"] > 50
    assert core["alone"]["ndr"]["pct"] - core["alone"]["ndr"]["half_width_pct"] > 50
    assert core["cost"]["cores"] == 1


def test_the_highest_rate_without_loss_is_that_of_a_search_at_the_port(advice):
    _, _, found = advice
    now = found.document["now"]
    assert now["lift"] == 1
    assert now["lifted_ndr_mpps"] == pytest.approx(now["ndr_mpps"], rel=0.05)
    confirmed = found.document["best"]["confirmed"]
    for side in ("before", "after"):
        assert confirmed["lifted_ndr"][side] == pytest.approx(confirmed["ndr_mpps"][side], rel=0.05)


def test_with_the_goal_ndr_combinations_are_searched_and_the_list_is_by_that(advice, monkeypatch):
    _, asked, _ = advice
    # It asks what is searched and how that is listed. How exact rates are is asked of `advice`, whose trials are whole.
    monkeypatch.setattr(bench, "_LEAST_TRIAL", smaller.ADVICE["_LEAST_TRIAL"])
    fit, _ = techniques.fitting(resolved(**SMALL))
    without = [each.name for each in fit if each.name not in ("core", "hot_mbufs")]
    found = wirespeed.advise("forwarding", set=asked["set"], packets=4000, without=without, goal="ndr").document
    gains = [each["alone"]["ndr"]["pct"] for each in found["techniques"]]
    assert gains == sorted(gains, reverse=True)
    assert "core" in found["best"]["techniques"]
    assert all(each["ndr"] is not None for each in found["combinations"])
    heads, rows = text.combinations(found)
    assert heads.index("NDR") == 1
    assert all(len(row) == len(heads) for row in rows)
    assert "Switch on" in text.headline(found)
    assert "NDR" in text.headline(found)


def test_the_best_set_is_confirmed_within_one_percent(advice):
    _, _, found = advice
    confirmed = found.document["best"]["confirmed"]
    for side in ("before", "after"):
        assert confirmed["half_width_mpps"][side] <= 0.01 * confirmed["saturated_mpps"][side]
    chosen = next(
        each
        for each in found.document["combinations"]
        if set(each["techniques"]) == set(found.document["best"]["techniques"])
    )
    # What the longer runs find is what the comparison found.
    slack = confirmed["half_width_pct"] + chosen["rate"]["half_width_pct"] + 5
    assert abs(confirmed["gain_pct"] - chosen["rate"]["pct"]) <= slack


def test_the_cheapest_set_that_carries_the_target_carries_it(advice):
    _, asked, found = advice
    target = found.document["target"]
    assert target["met"]
    assert [each["carries"] for each in target["tried"]][-1]
    assert not any(each["carries"] for each in target["tried"][:-1])
    by_name = {each["name"]: each["set"] for each in found.document["techniques"]}
    settings = [override for name in target["techniques"] for override in by_name[name]]
    base = [f"{path}={json.dumps(value)}" for path, value in asked["set"].items()]
    offered = [f'traffic.packet_rate="{target["mpps"]} Mpps"', "run.packets=20000", "run.curve=[]"]
    assert wirespeed.run("forwarding", set=[*base, *settings, *offered]).summary["loss"] == 0


def test_advice_that_is_known_is_not_run_again_and_does_not_depend_on_jobs(advice):
    folder, asked, found = advice
    again = wirespeed.advise("forwarding", **asked, out=folder)
    assert again.document["ran"] == 0
    same = {name: value for name, value in found.document.items() if name not in ("seconds", "ran")}
    assert same == {name: again.document[name] for name in same}


def test_advice_is_shown_with_intervals_and_its_command(advice):
    _, _, found = advice
    shown = page.page(found.document)
    # Gain against cost, the rate and p99; loss where it changes, and else a line that says that it does not.
    changes = any(text.changes_loss(each["loss"]) for each in found.document["techniques"])
    assert shown.count("<svg") == (4 if changes else 3)
    assert ("No technique surely changes the loss" in shown) != changes
    assert "99th percentile of sojourn at its own load" in shown
    # What is long wraps or is scrolled inside its box: the page is as wide as the window.
    assert shown.count('<span class="under">receive rings') == 1
    # What it is and of which system stands below the name: the gains and the cost stay in sight.
    assert '>what it is</th><th scope="col">rate' not in shown
    assert shown.index(">cost</th>") < shown.index('<span class="under">')
    commands = text.commands(found.document)
    assert shown.count("<pre") == shown.count('<div class="code"><pre class="wrapped">') == len(commands)
    assert all(label in shown for label, _ in commands)
    assert found.command.replace("'", "&#x27;").replace('"', "&quot;") in shown
    assert "± " in text.headline(found.document)
    for heads, rows in (text.ranked(found.document), text.at_own_load(found.document)):
        assert len(rows) == 4
        assert all(len(row) == len(heads) for row in rows)
    energies = [each["alone"]["energy"] for each in found.document["techniques"]]
    assert all(each["half_width_pct"] > 0 for each in energies)
    assert "nJ as it is" in found.document["energy_note"]


def test_energy_that_is_not_known_is_left_out_and_told():
    responses = np.log([[5.0, 4.0, np.nan, 5.1], [5.2, 4.1, np.nan, 5.2]])
    assert advice_of._against_known(bench.Measured(responses), 2) is None
    known = advice_of._against_known(bench.Measured(responses), 1)
    assert known == advice_of.against(responses[:, [0, 1, 3]], 1, pooled=True)
    assert -22 < known["pct"] < -19
    ranked = [{"name": "a", "alone": {"energy": known}}, {"name": "b", "alone": {"energy": None}}]
    assert "not known with b" in advice_of._energy_note(ranked, {"energy_nj": 5.1})
    assert "currents" in advice_of._energy_note(ranked, {"energy_nj": None})


def capture(folder):
    """A capture and a table that routes all of it."""
    (folder / "all.txt").write_text("0.0.0.0/0\n")
    (folder / "one.txt").write_text("192.0.2.0/24\n")
    frames = [documents.frame(i) for i in range(300)]
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    records = [struct.pack("<IIII", 1, 10 * i, len(each), len(each)) + each for i, each in enumerate(frames)]
    (folder / "trace.pcap").write_bytes(head + b"".join(records))
    return {"capture": folder / "trace.pcap", "table": folder / "all.txt"}


SHORT = {name: value for name, value in SMALL.items() if name.startswith(("run.", "mempool.", "machine."))}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"table": "one.txt"}, "nothing is carried as it is: 100.0 % .* no_route .*--table"),
        (
            {"set": {"mempool.size": 1024, "nic.rx_descriptors": 128, "machine.cores": 4}},
            "nothing is carried .* no_mbuf",
        ),
        ({"set": {"traffic.rounds": 2}}, r"nothing is carried as it is: no packet was measured.*set run\.warmup"),
    ],
)
def test_traffic_that_is_not_carried_is_refused(given, says, tmp_path):
    files = capture(tmp_path)
    files |= {"table": tmp_path / given["table"]} if "table" in given else {}
    asked = bench.Asked("forwarding", **files, set={**SHORT, **given.get("set", {})}, packets=2000, jobs=1)
    of = bench.Bench(asked)
    try:
        with pytest.raises(wirespeed.InputError, match=says):
            of.where_it_is()
    finally:
        of.close()


def test_little_of_it_carried_is_refused_too_but_what_a_filter_denies_is_its_work():
    row = {"carried_mpps": 1.0, "packets": 1000.0, "drops.no_route": 600.0}
    with pytest.raises(wirespeed.InputError, match=r"little is carried at line rate: 60.0 % .*--table"):
        bench._refuse(row, "at line rate")
    bench._refuse({**row, "drops.no_route": 400.0}, "at line rate")
    bench._refuse({"carried_mpps": 1.0, "packets": 1000.0, "drops.denied": 900.0}, "at line rate")


def test_sets_that_carry_nothing_have_a_response_all_the_same(monkeypatch):
    of = bench.Bench(bench.Asked("forwarding", set=SMALL, jobs=1))
    of._saturated = 10.0
    nothing = {"replication": 0, "error": None, "carried_mpps": 0.0, "loss": 1.0}
    monkeypatch.setattr(of, "_study", lambda _, cases, *__, **___: [nothing | {"case": case} for case in cases])
    found = of.measure("x", [frozenset()], [], 1, [frozenset()])
    of.close()
    assert np.isfinite(found["rate"].runs).all()


def test_a_capture_in_rounds_is_the_same_for_every_seed_and_has_half_widths_of_batches(tmp_path):
    asked = bench.Asked("forwarding", **capture(tmp_path), set={**SHORT, "traffic.rounds": 1000}, packets=8000, jobs=1)
    of = bench.Bench(asked)
    try:
        fit, _ = techniques.fitting(of.resolved)
        on = next(each for each in fit if each.name == "core")
        of._saturated, of.warmup = 1.0, 12_000
        sets = [frozenset(), frozenset({on.name})]
        found = of.measure("x", sets, [on], 2, sets)
    finally:
        of.close()
    assert of.same_for_every_seed
    for name in ("rate", "p99"):
        effect = advice_of._against(found[name], 1, pooled=True)
        assert effect["half_width_pct"] > 0
        main = advice_of._effects(factorial.full(1), found[name], [[0]])
        assert main[0].half_width == pytest.approx(np.hypot(*found[name].within))


def test_seeds_that_change_nothing_are_told():
    document = {"same_for_every_seed": True}
    assert "the same for every seed" in text.seeds(document)
    assert text.seeds({"same_for_every_seed": False}) is None


def test_where_the_port_is_the_limit_nothing_has_to_change():
    now = {"ndr_at_line_rate": True, "ndr_mpps": 18.4, "carried_mpps": 4.6, "loss": 0.0, "rejected_share": 0.93}
    now |= {"p99_ns": 2e3, "lift": 2, "saturated_mpps": 30.0, "lifted_ndr_mpps": 28.0}
    now |= {"llc_hits": {"own": 0.9, "saturated": 0.5}, "link_full": False}
    found = {
        "techniques": [],
        "relief": None,
        "first": None,
        "goal": "rate",
        "machine": "a machine",
        "now": now,
        "best": {"techniques": [], "titles": []},
        "combinations": None,
    }
    assert text.headline(found).startswith("Nothing has to change: the port's line rate")
    assert any(line.startswith("93.0 % of the packets are rejected") for line in text.now(found))
    found["now"] = now | {"ndr_at_line_rate": False}
    assert text.headline(found).startswith("No technique surely helps")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"goal": "speed"}, "must be one of rate, ndr, p99"),
        ({"packets": 10}, "must be at least 1000"),
        ({"without": ["cores"]}, "must be one of"),
        ({"without": ["small_pol"]}, "did you mean `small_pool`"),
        ({"set": {"run.packets": 500_000}}, r"as many as --packets says.*; give --packets 500000 in its place"),
        ({"target": "fast"}, "must be a rate"),
        ({"target": "0 Mpps"}, "must be a rate"),
        ({"set": {"machine.llc.wais": 3}}, "did you mean `ways`"),
        ({"set": {"run.search": "ndr"}}, "advice searches by itself"),
    ],
)
def test_wrong_input_is_told_before_anything_runs(given, says, tmp_path):
    with pytest.raises(wirespeed.InputError, match=says):
        wirespeed.advise("forwarding", **given, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_target_beyond_the_port_is_told(tmp_path):
    with pytest.raises(wirespeed.InputError, match="more than the port's line rate"):
        wirespeed.advise("forwarding", set=SMALL, target="200 Mpps", out=tmp_path)


def test_a_target_that_is_carried_as_it_is_is_answered_at_once(tmp_path):
    found = wirespeed.advise("forwarding", set=SMALL, packets=2000, target="100 kpps", out=tmp_path)
    document = found.document
    assert document["answered"]
    # What line rate is, and the target.
    assert document["runs"] == 2
    assert text.headline(document).startswith("Nothing has to change: 0.100 Mpps go through without loss")
    shown = page.page(document)
    assert '<header class="verdict keeps">' in shown
    assert "traffic.packet_rate=0.1 Mpps" in document["target"]["command"]
    assert text.commands(document) == [("Run it as it is, at the target", document["target"]["command"])]
    assert found.settings == []
    assert "lost none" in terminal.text(text.summary(document), Console(file=io.StringIO(), width=80))
    tables = [f"{name}.{kind}" for name in ("techniques", "combinations") for kind in ("parquet", "csv")]
    assert [file.name for file in found.write(tmp_path)] == ["advice.json", "advice.html", *tables]
    # Nothing was ranked: tables without rows have their columns all the same.
    assert (tmp_path / "techniques.csv").read_text().startswith('"name","title","kind","set","sram_bits",')
    assert found.techniques.to_arrow().num_rows == found.combinations.to_arrow().num_rows == 0


def test_the_box_is_green_where_nothing_has_to_change(advice):
    _, _, found = advice
    document = json.loads(json.dumps(found.document))
    document["now"]["ndr_at_line_rate"] = True
    assert '<header class="verdict keeps">' in page.page(document)
    document["now"]["ndr_at_line_rate"] = False
    assert '<header class="verdict plain">' in page.page(document)


def test_a_command_says_each_setting_once_and_the_last_holds(advice):
    _, _, found = advice
    paths = re.findall(r"--set '?([\w.]+)=", found.command)
    assert len(paths) == len(set(paths))
    assert "machine.cores" in paths
    core = next(each for each in found.document["techniques"] if each["name"] == "core")["set"][0]
    assert core in found.command


def test_techniques_are_in_groups_of_who_can_do_them(advice):
    _, _, found = advice
    groups = text.by_who(found.document, text.ranked(found.document)[1])
    assert [words for words, _ in groups] == ["Settings of driver and system", "More cores"]
    assert sum(len(rows) for _, rows in groups) == len(found.document["techniques"])
    printed = terminal.text(text.summary(found.document), Console(file=io.StringIO(), width=100))
    assert printed.index("Settings of driver and system") < printed.index("More cores")
    assert "<h3>More cores</h3>" in page.page(found.document)


def dearer(document):
    """The document of advice whose best set takes a core, where a setting helps, too: the cheapest comes first."""
    document = json.loads(json.dumps(document))
    alone = {"pct": 6.0, "half_width_pct": 1.0}
    setting = next(each for each in document["techniques"] if each["name"] == "hot_mbufs")
    setting["alone"]["rate"] = alone
    for each in document["techniques"]:
        if each["name"] not in ("core", "hot_mbufs"):
            each["alone"]["rate"] = {"pct": 0.5, "half_width_pct": 1.0}
    command = "wirespeed run forwarding --set mempool.kind=lifo"
    document["first"] = {"technique": "hot_mbufs", "titles": [setting["title"]], "command": command}
    return document


def test_the_cheapest_change_that_helps_comes_first(advice):
    _, _, found = advice
    document = dearer(found.document)
    assert "core" in document["best"]["techniques"]
    told = text.headline(document)
    assert told.startswith(
        "Begin with a mempool that gives the mbuf freed last, a setting: +6.0 ± 1.0 % at saturation. The best set, "
    )
    assert told.index("mempool") < told.index("one more core")
    assert text.commands(document)[0] == (
        "Run it with the cheapest change that helps, hot_mbufs",
        document["first"]["command"],
    )
    assert [row[:2] for row in text.steps(document)[1]] == [
        ["a mempool that gives the mbuf freed last", "a setting"],
        ["one more core, with its ring", "one more core"],
    ]
    answer, rest = told.split(". ", 1)
    assert f"<h1>{answer}</h1><p>{rest}.</p>" in page.page(document)
    # What is dearer and helps more comes later; where the best set is of the cheapest kind, it leads.
    document["best"]["techniques"] = ["hot_mbufs"]
    assert text.headline(document).startswith("Switch on ")
    # What was found by runs is the first of that list.
    named = [each["name"] for each in techniques.helps(found.document["techniques"], "rate")]
    assert found.document["first"]["technique"] == named[0]
    assert "core" in named
    kinds = [each["kind"] for each in techniques.helps(found.document["techniques"], "rate")]
    assert kinds == sorted(kinds, key=list(techniques.WHO).index)


def test_why_saturation_carries_less_is_told_where_rings_push_buffers_out(advice):
    _, _, found = advice
    document = json.loads(json.dumps(found.document))
    assert document["now"]["rings"] == {"rings": 1, "descriptors": 1024, "mbufs": 1024}
    assert document["now"]["io_bytes"] == 25344 * 1024 * 2 // 11
    document["now"] |= {"saturated_mpps": 58.0, "lifted_ndr_mpps": 75.0, "llc_hits": {"own": 0.94, "saturated": 0.67}}
    assert text.full_rings(document) == (
        "Why 58.0 Mpps at saturation is less than 75.0 Mpps without loss: the full ring holds 1,024 buffers, which "
        "push each other out of the 4.5 MiB of the LLC that devices fill, so that cores find 67 % of what they ask of "
        "the LLC there, and 94 % at the scenario's own load."
    )
    assert text.full_rings(document) in text.now(document)
    for other in ({"lifted_ndr_mpps": 58.5}, {"lifted_ndr_mpps": None}, {"llc_hits": {"own": 0.68, "saturated": 0.67}}):
        assert text.full_rings({**document, "now": document["now"] | other}) is None


def test_one_more_core_is_a_number(advice):
    _, _, found = advice
    document = json.loads(json.dumps(found.document))
    core = next(each for each in document["techniques"] if each["name"] == "core")
    document["now"] |= {"saturated_mpps": 50.0, "lifted_ndr_mpps": 60.0}
    core["alone"] |= {"rate": {"pct": 2.0, "half_width_pct": 3.0}, "ndr": {"pct": 20.0, "half_width_pct": 2.0}}
    assert text.one_more_core(document) == (
        "One more core brings (1.00 ± 1.5 Mpps) at saturation and 12.0 ± 1.2 Mpps without loss."
    )
    document["techniques"].remove(core)
    assert text.one_more_core(document) is None


def test_gain_is_drawn_against_cost_with_its_half_width(advice):
    _, _, found = advice
    spec = page.gain_against_cost(found.document, "rate").to_dict()
    spans, points, names = spec["layer"]
    assert spans["encoding"]["y"]["axis"]["title"] == "rate at saturation, alone, %"
    assert {"y", "y2"} <= set(spans["encoding"])
    assert spans["encoding"]["x"]["sort"] == list(techniques.IS.values())
    assert points["encoding"]["x"]["axis"]["title"] == "what it takes, the cheapest first"
    assert names["transform"] == [{"filter": "datum.helps"}]
    assert names["encoding"]["y"]["field"] == "name_y"
    at = {"low": -10.0, "high": 42.0, "who": "a setting", "helps": True}
    rows = [at | {"y": 28.0}, at | {"y": 28.4}, at | {"y": 28.5, "who": "new hardware"}, at | {"y": 40.0}]
    assert [row["name_y"] for row in page._names_apart(rows)] == [28.0, 31.0, 28.5, 40.0], "15 of 260 pixels are 3 %"


def test_advice_is_tables(advice, tmp_path):
    _, _, found = advice
    rows = found.techniques.to_arrow().to_pylist()
    assert [row["name"] for row in rows] == [each["name"] for each in found.document["techniques"]]
    core = next(row for row in rows if row["name"] == "core")
    alone = next(each for each in found.document["techniques"] if each["name"] == "core")["alone"]
    assert (core["rate_pct"], core["rate_half_width_pct"]) == (alone["rate"]["pct"], alone["rate"]["half_width_pct"])
    assert (core["cores"], core["kind"]) == (1, "core")
    assert found.combinations.to_polars()["techniques"].to_list() == [
        " + ".join(each["techniques"]) for each in found.document["combinations"]
    ]
    found.write(tmp_path)
    assert pq.read_table(tmp_path / "techniques.parquet").equals(found.techniques.to_arrow())
    assert len((tmp_path / "combinations.csv").read_text().splitlines()) == len(found.document["combinations"]) + 1


def labels(document):
    return [label for label, _ in text.commands(document)]


def test_where_nothing_has_to_change_the_first_command_changes_nothing(advice):
    _, _, found = advice
    document = json.loads(json.dumps(found.document))
    plain = document["now"]["command"]
    document["target"]["met"] = False
    document["now"]["ndr_at_line_rate"] = False
    document["first"] = None
    assert labels(document)[0] == "Run the best"
    assert labels(document)[-1] == "Run the best as its rate was compared, at saturation"
    assert "with more in reserve" not in " ".join(labels(document))
    document["now"]["ndr_at_line_rate"] = True
    first, second = text.commands(document)[:2]
    assert first == ("Run it as it is, which keeps line rate", plain)
    assert second == ("Run it with more in reserve, behind the port that it has", found.command)
    assert "Nothing has to change" in text.headline(document)
    assert "Who wants more in reserve" in text.headline(document)
    # One command is told once, with all that is said of it.
    document["target"] |= {"met": True, "command": plain}
    assert text.commands(document)[0][0].endswith("keeps line rate; it is the cheapest that carries the target")
    assert [command for _, command in text.commands(document)].count(plain) == 1
    document["best"] |= {"techniques": [], "titles": [], "command": plain}
    assert len(text.commands(document)) == 2
    assert labels(document)[-1] == "Run it as its rate was compared, at saturation"
    document["goal"] = "p99"
    assert labels(document)[0].startswith("Run it as it is; ")


def test_where_packets_are_rejected_both_rates_say_what_they_count(advice):
    _, _, found = advice
    document = json.loads(json.dumps(found.document))
    assert document["now"]["rejected_share"] == 0
    told = "packets that the function rejects count in NDR alone"
    assert told not in text.ranked_by(document)
    document["now"]["rejected_share"] = 0.12
    assert told in text.ranked_by(document)
    assert told in page.page(document)
    assert any("12.0 % of the packets are rejected" in line and "not lost" in line for line in text.now(document))


@pytest.mark.parametrize(
    "settings",
    [
        {"machine.cores": 8},
        {"nic.rx_descriptors": 1633},
        {"machine.cores": 8, "pipeline.rx_cores": 1, "pipeline.queue": 4096},
        {"machine.cores": 16, "pipeline.rx_cores": 8, "nic.rx_descriptors": 4096},
    ],
)
def test_the_pool_that_is_advised_is_the_one_that_a_scenario_grows_to(settings):
    of = resolved(**settings)
    assert techniques._pool(of, of["machine"]["cores"]) == of["mempool"]["size"] > 16384


LONG_RINGS = {"nic.rx_descriptors": 4096, "mempool.size": 32768}
"""With such rings the pool is the smallest there can be; with shorter ones it is not."""


def test_a_pool_is_as_small_as_the_rings_of_the_set_allow():
    of = resolved(**LONG_RINGS)
    fit = {each.name: each for each in techniques.fitting(of)[0]}
    assert "small_pool" not in fit, "with these rings it is the smallest"
    assert techniques.pool_behind(of, [fit["wide_io"]]) is None
    pool = techniques.pool_behind(of, [fit["short_rings"], fit["wide_io"]])
    (override,) = pool.overrides
    size = int(override.removeprefix("mempool.size="))
    assert size < int(of["mempool"]["size"])
    assert size == 16384  # 4 cores with 256 received, 2 ports of 1024 sent, a burst of 32, a cache up to 384: 10880
    api.resolve("forwarding", set=[*fit["short_rings"].overrides, override])
    more = techniques.pool_behind(of, [fit["short_rings"], fit["core"], fit["long_bursts"]])
    assert int(more.overrides[0].partition("=")[2]) >= size
    small = resolved(**{"nic.rx_descriptors": 1024, "mempool.size": size})
    assert techniques.pool_behind(small, [fit["short_rings"]]) is None


@pytest.mark.parametrize("gain", [50.0, 0.1])
def test_a_pool_for_the_rings_that_are_advised_is_taken_where_it_surely_helps(gain, monkeypatch, advice):
    of = bench.Bench(bench.Asked("forwarding", set=LONG_RINGS, jobs=1))
    fit, _ = techniques.fitting(of.resolved)
    rate = {"pct": 20.0, "half_width_pct": 1.0}
    best = {"techniques": ["short_rings"], "rate": rate, "p99": rate, "ndr": None, "energy": None, "loss": 0.0}
    combined = {"sets": [best], "best": best}
    asked = []

    def measure(phase, sets, on, seeds, own_load):
        asked.append(sets[1])
        logs = np.log([[1.0, 1.2 + gain / 100]] * seeds) + np.array([[0.0], [0.01], [0.02]])[:seeds]
        return {name: bench.Measured(logs) for name in ("rate", "p99", "loss", "energy")}

    monkeypatch.setattr(of, "measure", measure)
    found = advice_of._retried(of, fit, combined, bench.Asked("forwarding"))
    assert asked == [frozenset({"short_rings", "small_pool"})]
    assert found["taken"] == (gain > 1)
    assert (combined["best"]["techniques"] == ["short_rings", "small_pool"]) == found["taken"]
    assert len(combined["sets"]) == 1 + found["taken"]
    told = {**advice[2].document, "retried": found}
    assert text.retried(told).endswith("taken" if found["taken"] else "left out")
    assert found["pool"].title in page.page(told).lower() or found["pool"].title[1:] in page.page(told)
    assert found["pool"].overrides[0] in text.retried(told)
    # Not where rings stay, nor where the pool is left out.
    assert advice_of._retried(of, fit, {"sets": [], "best": {"techniques": ["wide_io"]}}, bench.Asked("x")) is None
    left = bench.Asked("x", without=["small_pool"])
    assert advice_of._retried(of, fit, {"sets": [best], "best": best}, left) is None
    of.close()


def test_two_sizes_of_pools_have_two_names(monkeypatch):
    of = bench.Bench(bench.Asked("forwarding", set={"nic.rx_descriptors": 4096, "mempool.size": 262144}, jobs=1))
    fit, _ = techniques.fitting(of.resolved)
    rate = {"pct": 20.0, "half_width_pct": 1.0}
    best = {"techniques": ["short_rings", "small_pool"], "rate": rate, "p99": rate, "ndr": None, "energy": None}
    combined = {"sets": [best], "best": best}

    def measure(phase, sets, on, seeds, own_load):
        logs = np.log([[1.0, 1.7]] * seeds) + np.array([[0.0], [0.01], [0.02]])[:seeds]
        return {name: bench.Measured(logs) for name in ("rate", "p99", "loss", "energy")}

    monkeypatch.setattr(of, "measure", measure)
    found = advice_of._retried(of, fit, combined, bench.Asked("forwarding"))
    of.close()
    assert found["name"] == "smaller_pool"
    assert found["taken"]
    assert [each["techniques"] for each in combined["sets"]] == [
        ["short_rings", "small_pool"],
        ["short_rings", "smaller_pool"],
    ]
    by_name = {each.name: each for each in fit}
    assert found["pool"].overrides != by_name["small_pool"].overrides
    described = advice_of._described(of, [*fit, found["pool"]], combined["best"]["techniques"])
    assert found["set"][0] in described["command"]


@pytest.mark.parametrize("is_retried", [True, False])
def test_a_pool_that_was_tried_behind_shorter_rings_is_not_said_not_to_fit(is_retried, advice, monkeypatch):
    folder, asked, _ = advice

    def retried(of, fit, combined, asked):
        effect = {"pct": 1.0, "half_width_pct": 2.0}
        with_pool = {"rate": effect, "p99": effect, "ndr": None}
        told = {"name": "small_pool", "title": "a mempool of 4096 mbufs", "set": ["mempool.size=4096"]}
        return {**told, "taken": False, "with": with_pool, "without": [], "pool": None} if is_retried else None

    monkeypatch.setattr(advice_of, "_retried", retried)
    again = wirespeed.advise("forwarding", **asked, out=folder).document
    names = {each["name"] for each in again["not_fitting"]}
    assert ("small_pool" in names) != is_retried
    assert names


def test_bars_of_loss_have_as_many_decimals_as_its_table(advice):
    document = json.loads(json.dumps(advice[2].document))
    document["techniques"][0]["loss"] = {"change": -0.0004, "half_width": 0.0001}
    assert f"{document['techniques'][0]['title']}: -0.04 ± 0.01" in page.page(document)


def test_advice_from_python_takes_threads_and_the_command_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bench.Asked] = []

    def stop(given: bench.Asked) -> None:
        asked.append(given)
        raise wirespeed.InputError("enough")

    monkeypatch.setattr(advice_of, "advise", stop)
    with pytest.raises(wirespeed.InputError, match="enough"):
        wirespeed.advise("forwarding")
    assert isinstance(bench.Bench(asked[0])._engine, engines.Threads)
    assert isinstance(bench.Bench(replace(asked[0], in_processes=True))._engine, engines.Local)


def test_advice_shows_itself_in_a_notebook(advice):
    _, _, found = advice
    shown = found._repr_html_()
    assert "core" in shown
    assert "<script" not in shown
    assert "var(--" not in found.plot("p99").to_json()
    with pytest.raises(wirespeed.InputError, match="this advice has rate, ndr, p99"):
        found.plot("loss")


def test_so_few_packets_that_none_can_be_lost_are_refused_and_no_bug():
    few = {"function.forward.prefixes": 100, "run.curve": []}
    with pytest.raises(wirespeed.InputError, match=r"--packets 1000: too few to lose one at line rate.*40000"):
        wirespeed.advise("forwarding", set=few, packets=1000, jobs=1)
