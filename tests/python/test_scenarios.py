"""Where scenarios come from, and overrides as TOML."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wirespeed
from wirespeed import InputError, _wirespeed, api, gate, misspelt, scenarios
from wirespeed.errors import each_of
from wirespeed.tune import knobs

# TOML knows no surrogates, and integers of 64 bits.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES: Any = st.recursive(
    st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=8,
)


@given(VALUES)
def test_a_value_reads_back_from_toml(value: Any) -> None:
    text = scenarios.toml_value(value)
    assert "\n" not in text
    assert tomllib.loads(f"x = {text}") == {"x": value}


def test_a_value_without_a_form_in_toml_is_an_input_error() -> None:
    with pytest.raises(InputError, match="has no form in TOML"):
        scenarios.overrides({"x": object()})


@pytest.mark.parametrize("given_override", ["machine.llc.ways", "=8", " = 8"])
def test_an_override_needs_a_path_and_a_value(given_override: str) -> None:
    with pytest.raises(InputError, match="must be PATH=VALUE"):
        scenarios.overrides([given_override])


def test_one_text_is_no_list_of_overrides() -> None:
    with pytest.raises(InputError, match="must be a mapping"):
        scenarios.overrides("machine.llc.ways=8")


def test_a_file_comes_before_a_shipped_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = scenarios.scenario_names()[0]
    (tmp_path / name).write_text("mine = 1\n")
    monkeypatch.chdir(tmp_path)
    assert scenarios.find(name).text == "mine = 1\n"


def test_a_folder_does_not_hide_a_shipped_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = scenarios.scenario_names()[0]
    (tmp_path / name).mkdir()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    shipped = scenarios.find(name)
    assert "[machine]" in shipped.text
    assert scenarios.find(f"{name},machine.cores=2").overrides == ("machine.cores=2",)
    with pytest.raises(InputError, match="other: is a folder"):
        scenarios.find("other")


def test_a_copy_of_a_shipped_standard_as_a_part_of_ones_own_gives_the_same_bits(tmp_path: Path) -> None:
    few = {"run.packets": 2000, "run.warmup": 300, "run.curve": [], "function.forward.prefixes": 1000}
    part = tmp_path / "part.toml"
    part.write_text(_wirespeed.preset("dram", "ddr4-2666v"))
    for more in ({}, {"machine.dram.controller.queue": 32}):
        found = []
        for standard in ("ddr4-2666v", str(part)):
            run = wirespeed.run("forwarding", set={**few, **more, "machine.dram.standard": standard})
            own = {"run_id", "name", "wall_s", "load_s", "packets_per_wall_s"}
            found.append({name: value for name, value in run.summary.items() if name not in own})
        assert found[0] == found[1]
        assert found[0]["dram"]["energy_nj"]
    # All that the file says is in the resolved scenario: a study of a file that has changed is another one.
    resolved = wirespeed.resolve("forwarding", set={"machine.dram.standard": str(part)})
    part.write_text(part.read_text().replace("RFC = ", "RFC = 1"))
    assert wirespeed.resolve("forwarding", set={"machine.dram.standard": str(part)}) != resolved
    assert wirespeed.resolve(resolved) == resolved


def test_settings_after_a_comma_belong_to_the_scenario(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("x = 1\n")
    found = scenarios.find(f"{file},machine.llc.ways=8,traffic.sizes=[64,1500],name=a b")
    assert found.text == "x = 1\n"
    assert found.overrides == ("machine.llc.ways=8", "traffic.sizes=[64,1500]", "name=a b")


def test_text_with_a_line_break_is_a_scenario() -> None:
    assert scenarios.find("x = 1\n").text == "x = 1\n"


def test_an_unknown_name_is_told_the_nearest() -> None:
    name = scenarios.scenario_names()[0]
    with pytest.raises(InputError, match=f"did you mean `{name}`"):
        scenarios.find(name[:-1])


@pytest.mark.parametrize("name", ["missing.toml", "no/such/folder"])
def test_a_missing_file_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"{name}: no such file"):
        scenarios.find(name)


def test_a_folder_and_a_binary_file_are_no_scenarios(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        scenarios.find(tmp_path)
    (tmp_path / "x.bin").write_bytes(b"\xff\xfe\xb2\xa1")
    with pytest.raises(InputError, match="not UTF-8"):
        scenarios.find(tmp_path / "x.bin")


def test_tables_within_tables_set_what_dotted_paths_set_and_leave_the_rest() -> None:
    nested = {"machine": {"llc": {"core_ways": 8}, "cores": 2}, "traffic": {"flows": {"count": 10}}}
    dotted = {"machine.llc.core_ways": 8, "machine.cores": 2, "traffic.flows.count": 10}
    assert wirespeed.resolve("forwarding", set=nested) == wirespeed.resolve("forwarding", set=dotted)
    of_a_dict = {"traffic": {"load": 0.3}, "machine": {"cores": 2}}
    assert wirespeed.resolve({**of_a_dict, "machine.llc.core_ways": 8}) == wirespeed.resolve(
        {"traffic.load": 0.3, "machine": {"cores": 2, "llc.core_ways": 8}}
    )


def test_a_choice_of_several_forms_is_set_as_a_whole() -> None:
    text = wirespeed.resolve("forwarding", set={"traffic": {"sizes": {"fixed": 64}}})
    assert tomllib.loads(text)["traffic"]["sizes"] == {"fixed": "64 B"}
    assert scenarios.overrides({"machine": {"copy_table": {}}}) == ["machine.copy_table={}"]


@pytest.mark.parametrize(
    ("scenario", "set", "says"),
    [
        ({"run": {"packets": None, "seed": object()}}, None, ["run.packets: None", "run.seed: <object"]),
        ({1: 2}, None, ["scenario: 1 is no name of a setting"]),
        ({"traffic": 3, "traffic.load": 0.5}, None, ["traffic.load and a part of its path are both given"]),
        ({"traffic.load": 0.5, "traffic": {"load": 0.4}}, None, ["traffic.load and a part of its path are both given"]),
        ("forwarding", {"run": {"packets": None}, "machine": {2: 1}}, ["machine.2 is no name of a setting"]),
        ("forwarding", {"run": {"seed": 1}, "run.seed": 2}, ["set: run.seed is given twice"]),
        ("forwarding", {"machine": {"lcc": {"ways": 8}}}, ["machine.lcc: unknown field `lcc`"]),
        ("forwarding", {"traffic": {"load": None}}, ["set: traffic.load: None (NoneType) has no form in TOML"]),
    ],
)
def test_wrong_dicts_name_each_path(scenario: Any, set: Any, says: list[str]) -> None:
    with pytest.raises(InputError) as found:
        wirespeed.resolve(scenario, set=set)
    assert all(each in str(found.value) for each in says), found.value


def test_a_nested_setting_is_judged_as_a_dotted_one() -> None:
    with pytest.raises(InputError, match=r"--seed and --set run\.seed"):
        wirespeed.resolve("forwarding", set={"run": {"seed": 2}}, seed=3)
    with pytest.raises(InputError, match=r"--set traffic\.load"):
        wirespeed.size("forwarding", "1 Mpps", set={"traffic": {"load": 0.3}})
    with pytest.raises(InputError, match=r"--vary traffic\.load: sets traffic\.load, but --set sets traffic\.load"):
        wirespeed.sweep("forwarding", {"traffic": {"load": [0.1]}}, set={"traffic": {"load": 0.3}})


def test_dicts_are_taken_wherever_a_scenario_is() -> None:
    few = {"run": {"packets": 1000, "curve": []}, "function": {"forward": {"prefixes": 1000}}}
    more = {"traffic": {"load": 0.25}}
    flat = {"traffic.load": 0.25}
    assert wirespeed.run(few, set=more).run_id == wirespeed.run(few, set=flat).run_id
    assert [row["traffic.load"] for row in wirespeed.sweep(few, {"traffic": {"load": [0.1, 0.2]}}).rows] == [0.1, 0.2]
    assert wirespeed.compare(few, {**few, "machine": {"cores": 2}}, set=more).identical_traffic
    assert api.predict(few, set=more)["carried_mpps"] == api.predict(few, set=flat)["carried_mpps"]
    found = wirespeed.sensitivity(few, set=more, packets=1000)
    assert found == wirespeed.sensitivity(few, set=flat, packets=1000)


def test_every_misspelt_preset_is_told_at_once_with_its_line_what_is_near_and_what_lists_all(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        '[machine]\npreset = "xeon-gold-6141"\ncores = 0\n\n[nic]\nmodel = "100gg"\n\n[traffic]\nprofile = "imx"\n'
    )
    with pytest.raises(InputError) as raised:
        api.resolve(mine, set=["function.program=l3fw", "machine.gpu.preset=h1000"])
    told = str(raised.value).splitlines()
    wanted = {
        f'{mine}:2: machine.preset = "xeon-gold-6141"': ("xeon-gold-6140", "machine"),
        f'{mine}:6: nic.model = "100gg"': ("100g", "nic"),
        f'{mine}:9: traffic.profile = "imx"': ("imix", "traffic"),
        '--set function.program = "l3fw"': ("l3fwd", "program"),
        '--set machine.gpu.preset = "h1000"': ("h100", "gpu"),
    }
    for head, (near, kind) in wanted.items():
        (line,) = [each for each in told if each.startswith(f"{head}: no such preset: did you mean {near}")]
        assert f"`wirespeed presets --kind {kind}`" in line
        assert all(name in line for of, name, _ in _wirespeed.presets() if of == kind)
    # What hides behind a missing preset is told as well, and by what names.
    (line,) = [each for each in told if "machine.cores" in each]
    assert line.startswith(f"{mine}:3: machine.cores: 0: allowed are 1 to 64")
    assert 'machine.preset="xeon-gold-6140"' in line
    assert len(told) == len(set(told))


def test_a_profile_that_is_not_shipped_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--set traffic\.profile = \"ispp\": no such preset: did you mean isp\?"):
        api.resolve("forwarding", set=["traffic.profile=ispp"])
    (tmp_path / "own.toml").write_text(_wirespeed.preset("traffic", "imix"))
    assert "own.toml" in api.resolve("forwarding", set={"traffic.profile": str(tmp_path / "own.toml")})


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("machine.cores", 2),
        ("machine.llc.ways", 4),
        ("machine.llc.slices", 3),
        ("machine.l1.size", 5),
        ("machine.clos[1].cbm", 9),
        ("nic.rate", 7),
        ("run.seed", None),
    ],
)
def test_a_setting_is_found_at_its_line_or_at_the_table_around_it(path: str, line: int | None) -> None:
    text = (
        "[machine]\ncores = 4 # [run]\n[machine.llc]\nways = 11\n[machine.l1]\n"
        '[nic]\nrate = "1 Gbps" # machine.cores = 3\n[[machine.clos]] # two\ncbm = "0x3"\n'
    )
    assert misspelt.line_of(text, path) == line


def test_faults_of_a_file_have_their_lines_and_those_of_an_override_have_none(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("[machine]\n\nfoo = 3\ncores = 0\n")
    with pytest.raises(InputError) as raised:
        api.resolve(mine, set=["run.packets=3"])
    told = str(raised.value)
    assert f"{mine}:3: machine.foo: unknown field" in told
    assert f"{mine}:4: machine.cores: 0" in told


def test_faults_of_options_are_told_all_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        api.resolve(
            "forwarding",
            capture=tmp_path / "no.pcap",
            table=tmp_path / "no.txt",
            seed=-1,
            set=["run.seed=4", "traffic.flows.count=9", "function.forward.table=x.txt"],
        )
    told = str(raised.value)
    for part in (
        "--seed and --set run.seed: both say run.seed",
        "--capture and --set traffic.flows.count: both say what the traffic is",
        "--table and --set function.forward.table",
        "seed = -1: must be 0 or more",
        f"--capture {tmp_path / 'no.pcap'}: cannot be read",
        f"--table {tmp_path / 'no.txt'}: cannot be read",
    ):
        assert part in told
    with pytest.raises(InputError, match=r"(?s)'foo'.*'=3'"):
        scenarios.overrides(["foo", "run.seed=1", "=3"])


def test_a_fault_that_a_part_of_the_machine_tells_has_file_and_line_too(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("[nic]\nports = 2\nburst = 100000\n")
    with pytest.raises(InputError) as raised:
        api.resolve(mine)
    assert str(raised.value).startswith(f"{mine}:3: nic.burst = 100000: allowed is 1 to 1024")


def test_every_condition_and_every_knob_that_is_wrong_is_told() -> None:
    with pytest.raises(InputError, match=r"(?s)`p98`.*'loss > 3 us'"):
        each_of(["p98 > 3", "p99 > +5%", "loss > 3 us"], gate.parse)
    with pytest.raises(InputError, match=r"(?s)'a\.b'.*'=1'"):
        knobs.knobs(["a.b", "nic.burst=1,2", "=1"])
    with pytest.raises(InputError, match=r"(?s)--knob nic.burst: is given twice.*--knob nic.ports: is given twice"):
        knobs.knobs(["nic.burst=1", "nic.burst=2", "nic.ports=1", "nic.ports=2"])
