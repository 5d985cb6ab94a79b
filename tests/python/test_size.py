"""Sizing: the fewest cores, rings and pools that are enough, losses that were shown, and input that cannot be used."""

import io
import json
import math
import random
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import wirespeed
from wirespeed import api, operators, terminal
from wirespeed.size import Sizing, aim, dimensions, page, sizing, text, trials
from wirespeed.size import search as searching

# A small table, a small pool and short rings: full soon, and lossy soon.
SMALL: dict[str, Any] = {
    "machine.cores": 2,
    "function.forward.prefixes": 1000,
    "traffic.profile": "min64",
    "nic.rx_descriptors": 256,
    "nic.tx_descriptors": 256,
    "mempool.cache": 64,
    "nic.fifo": "32 KiB",
    "run.warmup": 6000,
}
QUICK: dict[str, Any] = {"loss": 1e-3, "threads": 2}
OTHERS = ["queues", "rings", "burst", "io_ways"]


def sized(target: str, set: dict[str, Any] | None = None, **more: Any) -> Any:
    return wirespeed.size("forwarding", target, set={**SMALL, **(set or {})}, **{**QUICK, **more})


def console_text(document: Any) -> str:
    console = Console(file=io.StringIO(), width=80)
    return terminal.text(text.summary(document), console)


def test_what_is_met_already_is_said_with_what_is_left():
    found = sized("20 Mpps")
    document = found.document
    assert found.met
    assert document["already"]
    assert (found.settings, document["changes"], len(document["tried"])) == ([], [], 1)
    assert document["runs"] <= 3, "the machine as it is, and line rate"
    assert document["margin"]["capacity_mpps"] > 20
    printed = console_text(document)
    assert printed.startswith("Met already: 2 cores carry 20.0 Mpps with a loss below 0.0100 %")
    assert "What to set" not in printed
    assert "Where line rate is offered" in printed
    # What a function rejects, of a rate that it polices say, is neither carried nor lost.
    assert "rejected" not in text.headline(document)
    policed = {
        **document,
        "nearest": {**document["nearest"], "carried_mpps": 0.7 * document["nearest"]["offered_mpps"]},
    }
    assert text.headline(policed).endswith(
        "; 30.0 % of the packets are rejected by the function itself, whatever the machine"
    )


def test_what_a_function_rejects_is_served_and_no_reason_for_more_cores():
    policed = trials.Trial(
        {"cores": 2}, "open", "", "", packets=1000, offered_mpps=10.0, carried_mpps=4.0, rejected=0.6
    )
    assert policed.served_mpps == pytest.approx(10.0)
    assert policed.lacks(aim.Aim(None, "10 Mpps", 1e-4, None, 1000, 1000)) == pytest.approx(0.0)
    assert sizing._served({"carried_mpps": 4.0, "offered_mpps": 10.0, "rejected": 600, "packets": 1000}) == 10.0


def test_what_is_fixed_at_a_value_has_it_in_the_answer():
    found = sized("20 Mpps", fix=["rings=512", "burst=16", "cores=3"]).document
    assert not found["already"]
    answer = found["answer"]
    assert [answer["machine"][name] for name in ("rings", "burst", "cores")] == [512, 16, 3]
    assert set(answer["changed"]) <= {"cores", "rings", "burst", "pool"}


def test_more_cores_are_found_and_the_answer_runs(tmp_path):
    found = sized("80 Mpps", fix=OTHERS)
    document = found.document
    cores = document["answer"]["machine"]["cores"]
    assert cores > 2
    assert not document["already"]
    by_cores = {each["machine"]["cores"]: each["outcome"] for each in document["tried"]}
    assert (by_cores[cores - 1], by_cores[cores]) == ("fails", "meets")
    assert document["changes"][0]["path"] == "machine.cores"
    assert "isolcpus" in document["changes"][0]["where"]
    written = found.write(tmp_path)
    assert sorted(file.name for file in written) == [
        *("size.html", "size.json", "size.toml", "tried.csv", "tried.parquet")
    ]
    rows = found.tried.to_arrow().to_pylist()
    assert [row["outcome"] for row in rows] == [each["outcome"] for each in document["tried"]]
    assert [row["cores"] for row in rows] == [each["machine"]["cores"] for each in document["tried"]]
    assert rows[0]["carried_mpps"] == document["tried"][0]["carried_mpps"]
    assert len((tmp_path / "tried.csv").read_text().splitlines()) == len(rows) + 1
    assert json.loads((tmp_path / "size.json").read_text())["set"] == found.settings
    scenario = tomllib.loads((tmp_path / "size.toml").read_text())
    assert scenario["machine"]["cores"] == cores
    ran = wirespeed.run(tmp_path / "size.toml").summary
    assert ran["lost"] == 0
    assert ran["offered_mpps"] == pytest.approx(80, rel=0.01)
    html = (tmp_path / "size.html").read_text()
    assert text.headline(document) in html
    assert "Rate over cores" in html
    assert "<svg" in html
    assert all(len(line) <= 80 for line in console_text(document).splitlines())


def test_what_nothing_meets_names_the_nearest_what_limits_and_what_would_have_to_grow():
    found = sized("140 Mpps", vary=["cores=1..3"], fix=OTHERS)
    document = found.document
    assert not found.met
    assert document["answer"] is None
    assert document["nearest"]["machine"]["cores"] == 3
    assert document["short"]["limit"] == "core"
    assert document["short"]["grow"] == ["cores"]
    assert document["short"]["cores_by_share"] > 3
    printed = " ".join(console_text(document).split())
    assert "Not met by any machine that was tried: the nearest, 3 cores" in printed
    assert "what limits is a core" in printed
    assert "cores (tried up to 3)" in printed
    assert "Not met" in page.page(document)


def test_rings_that_lose_by_stalls_grow_to_the_least_that_survives():
    stalls = {"every": "1 s", "lengths": ["20 us"]}
    found = sized("20 Mpps", {"machine.core.stalls": stalls, "nic.rx_descriptors": 128}, loss=1e-5, vary=["cores=2"])
    answer = found.document["answer"]
    assert found.document["now"]["cause"] == "stalls"
    # 10 Mpps a core for 20 us are 200 packets or so, and 32 of a ring wait to be posted.
    assert answer["machine"]["rings"] == answer["stalls"]["least_descriptors"] == 256
    assert answer["stall_loss"] == 0
    assert [each["name"] for each in found.document["changes"]] == ["rings"]


def test_a_99th_percentile_that_is_asked_for_takes_more_cores_or_shorter_rings():
    loose = sized("36 Mpps", least=True, fix=OTHERS, vary=["cores=1..8"]).document["answer"]
    # Two cores that are hardly ever idle have no bound of it in so few packets.
    within = loose["p99_ns"] * 0.8
    tight = sized("36 Mpps", least=True, fix=OTHERS, vary=["cores=1..8"], p99=f"{within:.0f} ns").document["answer"]
    assert tight is not None
    assert tight["p99_high"] <= within < loose["p99_ns"]
    assert tight["machine"]["cores"] > loose["machine"]["cores"]


def test_the_pool_follows_cores_and_rings():
    resolved = tomllib.loads(api.resolve("forwarding", set=SMALL))
    faults: list[str] = []
    room = dimensions.space(resolved, ["rings=256,4096"], [], faults)
    assert faults == []
    wish = aim.Wish("forwarding", "1 Mpps", set=SMALL)
    wanted = aim.aim(wish, faults)
    assert wanted is not None
    made = trials.Trials(wish, wanted, room, resolved)
    assert made.fitted(room.now)["pool"] == room.now["pool"]
    large = made.fitted({**room.now, "cores": 8, "rings": 4096})
    assert large["pool"] == dimensions.rule(resolved, large) > room.now["pool"]
    assert made.why_not(large) is None
    assert "mempool.size" in str(made.why_not({**large, "pool": 1024}))
    assert f"mempool.size={large['pool']}" in made.settings(large)


def test_a_loss_is_met_only_where_so_many_packets_show_it():
    found = sized("20 Mpps", loss=1e-4).document
    assert found["now"]["packets"] >= 30_000
    assert found["now"]["loss_upper_95"] <= 1e-4
    few = sized("20 Mpps", loss=1e-6, packets=20_000).document
    assert few["target"]["shown_loss"] == pytest.approx(1.5e-4)
    printed = " ".join(console_text(few).split())
    assert "at 95 %; 1.0e-6 takes 3,000,000 (leave out --packets)" in printed


def summary(**more: Any) -> dict[str, Any]:
    """Of a run of 100,000 packets, as far as a trial looks at it."""
    found: dict[str, Any] = {
        "packets": 100_000,
        "lost": 0,
        "loss": 0.0,
        "loss_half_width": 0.0,
        "offered_mpps": 10.0,
        "carried_mpps": 10.0,
        "cores": [{"busy": 0.5}],
        "verdict": {"limit": "core", "loss_is_known": True},
        "sojourn_ns": {"p99": 5000.0, "p99_low": 4900.0, "p99_high": 5100.0},
        "batches": {"carried_mpps": [10.0, 10.0], "mean": [2000.0] * 8},
    }
    return {**found, **more}


ASKED = aim.aim(aim.Wish("forwarding", "10 Mpps", loss=3e-5, p99="6 us"), [])
MACHINE = {"cores": 1, "burst": 32}


@pytest.mark.parametrize(
    ("changed", "outcome", "cause"),
    [
        ({}, "meets", ""),
        ({"packets": 99_999}, "open", ""),
        ({"lost": 1, "loss": 1e-5, "loss_half_width": 2.5e-5}, "fails", "loss"),
        ({"lost": 9, "loss": 9e-5, "loss_half_width": 2e-5}, "fails", "loss"),
        ({"lost": 9, "loss": 9e-5, "loss_half_width": 2e-5, "cores": [{"busy": 1.0}]}, "fails", "rate"),
        ({"sojourn_ns": {"p99": 5900.0, "p99_low": 5800.0, "p99_high": 6001.0}}, "fails", "p99"),
        ({"sojourn_ns": {"p99": 5900.0, "p99_low": 5800.0, "p99_high": None}}, "fails", "p99"),
        ({"stalls": {"loss": 4e-5}}, "fails", "stalls"),
        ({"verdict": {"limit": "core", "loss_is_known": False}}, "open", ""),
        # 32 of a burst and 2 sqrt(100,000) = 632 may wander; at 10 Mpps 1 us is 10 packets.
        ({"batches": {"carried_mpps": [10.0], "mean": [0.0] * 6 + [66_300.0] * 2}}, "meets", ""),
        ({"batches": {"carried_mpps": [10.0], "mean": [0.0] * 6 + [66_600.0] * 2}}, "fails", "rate"),
        ({"ring_growth": 0.004}, "fails", "rate"),
        ({"ring_growth": 0.0}, "meets", ""),
        ({"ring_growth": None}, "meets", ""),
    ],
)
def test_a_trial_meets_what_it_showed_and_fails_what_it_refuted(changed, outcome, cause):
    assert ASKED is not None
    found = trials.judge(MACHINE, [summary(**changed)], ASKED, 1)
    assert (found.outcome, found.cause) == (outcome, cause), found.why


def test_runs_with_seeds_of_their_own_are_one_sample():
    assert ASKED is not None
    found = trials.judge(MACHINE, [summary(packets=60_000), summary(packets=40_000)], ASKED, 1)
    assert (found.packets, found.runs, found.outcome) == (100_000, 2, "meets")
    assert found.loss_upper == pytest.approx(3e-5)
    both = [summary(lost=2, loss=2e-5, loss_half_width=2e-5)] * 2
    assert trials.judge(MACHINE, both, ASKED, 1).loss_upper == pytest.approx(2e-5 + 2e-5 / math.sqrt(2))


@pytest.mark.parametrize("first", range(17))
@pytest.mark.parametrize("guess", [0, 3, 7, 15])
def test_the_first_that_meets_is_found_whatever_is_guessed(first, guess):
    asked: list[int] = []

    def meets(places: Any) -> list[bool]:
        asked.extend(places)
        return [place >= first for place in places]

    found = searching.least(16, meets, lambda: guess)
    assert found == (first if first < 16 else None)
    assert len(asked) <= 2 + 2 * 4 + 1
    if first == guess > 0:
        assert asked == [guess - 1, guess]


def test_every_shipped_processor_says_how_many_cores_it_has():
    for kind, name, _ in wirespeed._wirespeed.presets():
        if kind == "processor":
            assert 2 <= (dimensions.processor_cores({"machine": {"processor": name}}) or 0) <= 64, name


def test_all_that_is_wrong_is_told_at_once(wirespeed):
    words = ["--target", "40", "--p99", "20", "--loss", "0", "--vary", "foo=1..4", "--vary", "cores=8..2"]
    words += ["--fix", "rings=64,128", "--set", "traffic.load=0.5", "--set", "run.packets=5000"]
    code, out, err = wirespeed("size", "forwarding", *words)
    assert (code, out) == (2, "")
    for part in (
        "--target '40': of packets or of bits? Write '40 Mpps' or '40 Gbps'",
        "--p99 '20': must be a time above 0, for example '20 us'",
        "--loss 0: no run shows so little",
        "--vary foo: is no dimension",
        "; allowed are cores, queues, rings, pool, burst, io_ways, core_ways",
        "--vary cores=8..2: the range is empty, 8 is above 2; swap them",
        "--fix rings=64,128: fixes one value; --vary rings=64,128 tries several",
        "--set traffic.load: --target says how much is offered; leave it out",
        "--set run.packets: how runs are made is the search's; --packets N bounds their length",
    ):
        assert part in err, part


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--target", "0 Mpps"], ["--target '0 Mpps': must be a rate above 0"]),
        (["--target", "120 Gbps"], ["--target 120 Gbps: is more than the port's line rate of 100 Gbps"]),
        (["--target", "149 Mpps"], ["--target 149 Mpps: is more than the port's line rate, 148.8 Mpps or 100 Gbps"]),
        (
            ["--target", "1 Mpps", "--vary", "cores=1..99", "--fix", "burst=5000", "--vary", "io_ways=12"],
            ["--vary cores=99", "allowed are 1 to 64", "burst=5000", "1 to 1024", "io_ways=12", "has 11 ways"],
        ),
        (["--target", "1 Mpps", "--fix", "pool=100"], ["pool=100: mempool.size = 100: allowed is cores x"]),
        (["--target", "1 Mpps", "--vary", "cores"], ["--vary cores: there are no values; give them as in"]),
        (["--target", "1 Mpps", "--vary", "cores=0..4"], ["--vary cores: 0 is no whole number above 0"]),
        (["--target", "1 Mpps", "--vary", "cores=2", "--fix", "machine.cores"], ["--fix cores: is given twice"]),
        (["--target", "1 Mpps", "--vary", "receivers=1"], ["receivers: is no dimension (this machine has none)"]),
    ],
)
def test_bad_input_says_what_is_allowed(wirespeed, words, says):
    code, _, err = wirespeed("size", "forwarding", *words, *(f"--set={k}={v}" for k, v in SMALL.items()))
    assert code == 2
    for part in says:
        assert part in err, err


def test_the_command_prints_json_and_a_target_that_is_not_met_is_exit_code_1(wirespeed, tmp_path):
    settings = [x for k, v in SMALL.items() for x in ("--set", f"{k}={v}")]
    few = ["--loss", "1e-3", "--vary", "cores=1", *(x for each in OTHERS for x in ("--fix", each))]
    target = ["--target", "100 Mpps", "--format", "json"]
    code, out, _ = wirespeed("size", "forwarding", *target, *few, *settings, "--out", str(tmp_path))
    document = json.loads(out)
    assert (code, document["schema"], document["met"]) == (1, "wirespeed.size/1", False)
    assert tomllib.loads((tmp_path / "size.toml").read_text())["machine"]["cores"] == 1


def drawn(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A machine with its function and traffic, and what is asked of it, by number; a rate is a factor of one core's."""
    draw = random.Random(number)
    rings = draw.choice([128, 256, 512])
    settings = {
        **SMALL,
        "machine.preset": draw.choice(["xeon-gold-6140", "xeon-platinum-8380", "epyc-7402p"]),
        "machine.cores": draw.randint(1, 8),
        "nic.rx_descriptors": rings,
        "nic.burst": draw.choice([16, 32]),
        "traffic.profile": draw.choice(["min64", "isp"]),
        "function.kind": draw.choice(["forward", "forward", "nat", "ttl"]),
        "function.forward.prefixes": draw.choice([1000, 50_000]),
        "run.seed": number,
    }
    asked = {"loss": draw.choice([1e-3, 3e-4]), "p99": draw.choice([None, None, "10 us"])}
    return settings, {**asked, "factor": draw.uniform(0.8, 6.5)}


def least_of_all(settings: dict[str, Any], asked: dict[str, Any], target: str) -> int | None:
    """The least number of cores of 1 to 8 that meets a target, all of them tried to the end."""
    wish = aim.Wish("forwarding", target, loss=asked["loss"], p99=asked["p99"], set=settings, threads=2)
    faults: list[str] = []
    resolved = tomllib.loads(api.resolve("forwarding", set=settings))
    room = dimensions.space(resolved, ["cores=1..8"], OTHERS, faults)
    wanted = aim.aim(wish, faults)
    assert faults == []
    assert wanted is not None
    made = trials.Trials(wish, wanted, room, resolved)
    line = made.saturated(room.now)
    assert wanted.mpps(float(line["offered_mpps"]), 100.0) <= float(line["offered_mpps"])
    machines = [made.fitted({**room.now, "cores": cores}) for cores in range(1, 9)]
    machines[room.now["cores"] - 1] = dict(room.now)
    met = [each.machine["cores"] for each in made.thorough(machines, "all") if each.meets]
    return min(met, default=None)


def agrees(number: int) -> tuple[int | None, int | None, int]:
    """What all numbers of cores say, what the search says, and how many it tried."""
    settings, asked = drawn(number)
    one = wirespeed.run("forwarding", set={**settings, "machine.cores": 1, "traffic.load": 1.0, "run.packets": 20_000})
    line, core = one.summary["offered_mpps"], one.summary["carried_mpps"]
    target = f"{min(core * asked['factor'], 0.99 * line):.3f} Mpps"
    truth = least_of_all(settings, asked, target)
    more = {"loss": asked["loss"], "p99": asked["p99"], "least": True, "threads": 2}
    found = wirespeed.size("forwarding", target, set=settings, vary=["cores=1..8"], fix=OTHERS, **more).document
    answer = found["answer"]
    return truth, None if answer is None else answer["machine"]["cores"], len(found["tried"])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_fewest_cores_are_those_of_an_exhaustive_search(number):
    truth, found, _ = agrees(number)
    assert found == truth


@pytest.mark.slow
def test_the_fewest_cores_are_those_of_an_exhaustive_search_in_twenty_cases():
    found = {number: agrees(number) for number in range(101, 121)}
    for number, case in found.items():
        print(number, *case)
    assert {number: case[1] for number, case in found.items()} == {number: case[0] for number, case in found.items()}
    answered = [case for case in found.values() if case[0] is not None]
    assert len({case[0] for case in answered}) >= 4, "the cases are not alike"
    assert sum(tried for *_, tried in answered) < 5 * len(answered), "it does not try them all"


def test_the_document_is_whole():
    document, scenario = sizing.size(aim.Wish("forwarding", "20 Mpps", loss=1e-3, set=SMALL))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert tomllib.loads(scenario)["run"]["packets"] == 30_000


def test_the_answer_is_written_as_a_programs_configuration(
    wirespeed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["size", "forwarding-64b", "--target", "2 Mpps", "--packets", "3000", "--loss", "0.001", "-q"]
    few = [
        "--set",
        "function.forward.prefixes=2000",
        "--set",
        "machine.llc.size=2.75 MiB",
        "--set",
        "machine.llc.slices=2",
    ]
    code, printed, _ = wirespeed(*asked, *few, "--emit", "testpmd")
    assert code == 0
    configuration = printed[printed.index("# testpmd, as the scenario") :]
    Path("run.sh").write_text(configuration + "\n")
    assert tomllib.loads(operators.scenario(["run.sh"]))["nic"]["rx_descriptors"] == 1024
    code, _, said = wirespeed(*asked, *few, "--emit", "vvp")
    assert code == 2
    assert "--emit vvp: must be one of" in said
    code, _, said = wirespeed(*asked, *few, "--emit", "vpp", "--format", "json")
    assert code == 2
    assert "--emit and --format json" in said


def test_a_sizing_shows_itself_in_a_notebook():
    found = sized("24 Mpps")
    shown = found._repr_html_()
    assert found.document["command"].split()[0] in shown
    assert "<script" not in shown
    with pytest.raises(wirespeed.InputError, match="have as many cores"):
        found.plot()
    another = {**found.document["tried"][0], "machine": {**found.document["tried"][0]["machine"], "cores": 99}}
    drawn = Sizing({**found.document, "tried": [*found.document["tried"], another]}, "").plot().to_json()
    assert "var(--" not in drawn
    assert "meets the target" in drawn


def test_a_warm_machine_on_disk_that_is_damaged_is_named(
    wirespeed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    small = {name: value for name, value in SMALL.items() if name != "run.warmup"}
    small |= {"machine.llc.size": "704 KiB", "machine.llc.slices": 1}
    asked = ["size", "forwarding", "--target", "5 Mpps", "--packets", "3000"]
    asked += [word for name, value in small.items() for word in ("--set", f"{name}={value}")]
    first = wirespeed(*asked, "-q")
    (file,) = (tmp_path / "wirespeed" / "warm").iterdir()
    whole = file.read_bytes()
    for quiet in (["-q"], []):
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        code, printed, said = wirespeed(*asked, *quiet)
        assert (code, printed) == first[:2], "the result does not depend on it"
        named = re.search(rf"wirespeed: {file}: the state is damaged, \d+ bytes .*; it is made again", said)
        assert (named is None) == bool(quiet), said
        assert file.read_bytes() == whole
