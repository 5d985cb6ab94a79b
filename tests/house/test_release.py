"""What a release is made of besides the wheel: a package for Debian, monitoring, a gate for CI, a bill of materials."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import licences
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
sys.path.insert(0, str(PACKAGING))

import deb  # noqa: E402
import manual  # noqa: E402
import release  # noqa: E402

MONITORING = PACKAGING / "monitoring"
METRICS = ROOT / "crates" / "daemon" / "src" / "metrics.rs"
# As clap prints them.
HELP = {
    "": """Moves ways

Usage: wirespeedd [OPTIONS] <COMMAND>

Commands:
  check    Judge the configuration, touch nothing
  plan     Print the writes
  run      Observe and decide; a dry run, unless told to `apply`
  help     Print this message or the help of the given subcommand(s)

Options:
      --config <FILE>  The configuration [default: /etc/wirespeedd.toml]
      --log <LEVEL>    What is logged: error, warn, info or debug [default: info]
  -h, --help           Print help
  -V, --version        Print version
""",
    "check": """Judge the configuration, touch nothing

Usage: wirespeedd check [OPTIONS]

Options:
      --config <FILE>  The configuration [default: /etc/wirespeedd.toml]
      --log <LEVEL>    What is logged
  -h, --help           Print help
""",
    "run": """Observe and decide

Usage: wirespeedd run [OPTIONS]

Options:
      --apply          Make the writes. Everything's put back at the end
      --intervals <N>  End after so many intervals
      --config <FILE>  The configuration [default: /etc/wirespeedd.toml]
      --log <LEVEL>    What is logged
  -h, --help           Print help
""",
    # Where an option takes values that have words, clap writes all of them below.
    "plan": """Print the writes

Usage: wirespeedd plan [OPTIONS]

Options:
      --config <FILE>
          The configuration

      --simulate <MACHINE>
          Run against a made machine. Nothing of this one's is read or set

          Possible values:
          - skylake:   A Skylake-SP
          - no-effect: The same, without effect

      --offer <MPPS>
          Packets offered a second

          [default: 3.6]

  -h, --help
          Print help
""",
}


def wants(tool: str) -> Any:
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"wants {tool}")


def program_of(folder: Path) -> Path:
    """A program that prints `HELP`."""
    cases = "\n".join(f"{name or '--help'}) cat <<'END'\n{text}END\n;;" for name, text in HELP.items())
    program = folder / "wirespeedd"
    program.write_text(f'#!/bin/sh\ncase "$1" in\n{cases}\nesac\n')
    program.chmod(0o755)
    return program


def built() -> Path:
    """The program that was built."""
    for place in (Path(sys.executable).parent / "wirespeedd", ROOT / "target/release/wirespeedd"):
        if place.exists():
            return place
    pytest.skip("wants wirespeedd: make build")


# --- the package for Debian -------------------------------------------------------------------------------------------


@wants("dpkg-deb")
@wants("objdump")
def test_the_package_has_its_files_and_is_the_same_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    # To pack it as small as it can be takes nine seconds each time.
    monkeypatch.setenv("DPKG_DEB_COMPRESSOR_LEVEL", "0")
    first = deb.build(built(), tmp_path / "a")
    assert first.read_bytes() == deb.build(built(), tmp_path / "b").read_bytes()
    listed = subprocess.check_output(["dpkg-deb", "--contents", first], text=True).splitlines()
    files = {line.split()[5].removeprefix("."): line.split()[0] for line in listed if not line.startswith("d")}
    assert files["/usr/bin/wirespeedd"] == "-rwxr-xr-x"
    for path in (
        "/lib/systemd/system/wirespeedd.service",
        "/usr/share/man/man8/wirespeedd.8.gz",
        "/usr/share/man/man5/wirespeedd.toml.5.gz",
        "/usr/share/bash-completion/completions/wirespeedd",
        "/usr/share/zsh/vendor-completions/_wirespeedd",
        "/usr/share/fish/vendor_completions.d/wirespeedd.fish",
        "/usr/share/doc/wirespeedd/examples/wirespeedd.toml",
        "/usr/share/doc/wirespeedd/copyright",
        "/usr/share/wirespeedd/grafana.json",
        "/usr/share/wirespeedd/alerts.yml",
    ):
        assert files[path] == "-rw-r--r--", path
    # What changes a machine is not begun by being there.
    assert not any(path.startswith("/etc/") for path in files)
    control = subprocess.check_output(["dpkg-deb", "--field", first], text=True)
    assert re.search(r"^Depends: libc6 \(>= 2\.\d+\)", control, re.MULTILINE)
    assert f"Version: {deb.version()}-{deb.REVISION}" in control


@wants("dpkg-deb")
def test_scripts_of_the_package_are_shell(tmp_path: Path) -> None:
    for text in (deb._POSTINST, deb._PRERM, deb._POSTRM):
        (tmp_path / "script").write_text(text)
        subprocess.run(["sh", "-n", tmp_path / "script"], check=True)
        assert "systemctl enable" not in text
        assert "start wirespeedd" not in text.replace("try-restart wirespeedd", "")


@wants("systemd-analyze")
def test_systemd_finds_nothing_in_the_unit(tmp_path: Path) -> None:
    text = (deb.SYSTEMD / "wirespeedd.service").read_text().replace("/usr/bin/wirespeedd", "/bin/true")

    def said(unit: str) -> str:
        (tmp_path / "wirespeedd.service").write_text(unit)
        command = ["systemd-analyze", "verify", tmp_path / "wirespeedd.service"]
        return subprocess.run(command, capture_output=True, text=True).stderr

    if "Unknown key" not in said(text.replace("PrivateTmp=", "PrivateTemp=")):
        pytest.skip("wants a systemd-analyze that judges units here")
    assert said(text) == ""


def test_manual_pages_tell_every_option_and_every_setting(tmp_path: Path) -> None:
    program = program_of(tmp_path)
    page = manual.program_page(program, "1.2", "2026-01-01").replace("\\-", "-")
    plan = next(each for each in manual.commands(program) if each.name == "plan")
    assert plan.options[1:3] == (
        manual.Option(
            "--simulate",
            "MACHINE",
            "Run against a made machine. Nothing of this one's is read or set. skylake: A Skylake-SP. "
            "no-effect: The same, without effect.",
            ("skylake", "no-effect"),
        ),
        manual.Option("--offer", "MPPS", "Packets offered a second [default: 3.6]"),
    )
    assert plan.options[1].short == "Run against a made machine"
    for word in (
        "check",
        "run",
        "--apply",
        "--simulate",
        "skylake",
        "--intervals",
        "--config",
        "--log",
        "--version",
        *("0", "1", "2", "3"),
    ):
        assert word in page, word
    settings = manual.configuration_page("1.2", "2026-01-01").replace("\\-", "-")
    rows = re.findall(r"^\| `([\w.\[\]]+)`", manual._part("Configuration"), re.MULTILINE)
    assert len(rows) > 12
    for name in rows:
        assert name in settings, name
    if shutil.which("groff"):
        for text in (page, settings):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=text, text=True, capture_output=True)
            assert (done.returncode, done.stderr) == (0, "")


def test_exit_codes_of_the_manual_are_those_of_the_program() -> None:
    header = (ROOT / "crates/daemon/src/main.rs").read_text().replace("\n//!", "")
    said = re.search(r"Exit codes: (.*?)\.(?= *\n|$)", header, re.MULTILINE)
    assert said is not None
    assert re.findall(r"(?:^|, )(\d) ", said[1]) == [code for code, _ in manual.EXIT_CODES]


def test_completions_complete(tmp_path: Path) -> None:
    program = program_of(tmp_path)
    (tmp_path / "c.bash").write_text(manual.bash(program))

    def complete(*words: str) -> set[str]:
        script = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _wirespeedd; printf "%s\\n" "${COMPREPLY[@]}"'
        command = ["bash", "-c", script, tmp_path / "c.bash", "wirespeedd", *words]
        return set(subprocess.check_output(command, text=True).split())

    assert complete("c") == {"check"}
    assert complete("run", "--") == {"--apply", "--intervals", "--config", "--log", "--help"}
    assert complete("plan", "--") == {"--config", "--simulate", "--offer", "--help"}
    assert complete("plan", "--simulate", "") == {"skylake", "no-effect"}
    assert complete("--log", "w") == {"warn"}
    assert complete("check", "--app") == set()
    for text, shell, name in ((manual.zsh(program), "zsh", "c.zsh"), (manual.fish(program), "fish", "c.fish")):
        assert all(word in text for word in ("check", "run", "apply", "intervals")), shell
        (tmp_path / name).write_text(text)
        if shutil.which(shell):
            subprocess.run([shell, "-n", tmp_path / name], check=True)


def test_a_program_that_tells_nothing_has_no_manual(tmp_path: Path) -> None:
    program = tmp_path / "wirespeedd"
    program.write_text("#!/bin/sh\necho no\n")
    program.chmod(0o755)
    with pytest.raises(ValueError, match="no commands"):
        manual.commands(program)


# --- monitoring -------------------------------------------------------------------------------------------------------


def metrics() -> set[str]:
    """What the daemon registers; a counter's name ends with `_total`."""
    rows = re.findall(r'registry\.register\(\s*"(\w+)",\s*"[^"]*",\s*m\.(\w+)', METRICS.read_text())
    counters = {"decisions", "faults"}
    found = {f"wirespeedd_{name}{'_total' if of in counters else ''}" for name, of in rows}
    assert len(found) == 14
    return found


def asked(text: str) -> set[str]:
    return set(re.findall(r"\bwirespeedd_\w+", text))


def test_the_board_asks_for_every_metric_and_for_no_other() -> None:
    board = json.loads((MONITORING / "grafana.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert asked(" ".join(expressions)) == metrics()
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        area = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not area & taken, f"{panel['title']} lies over another panel"
        assert place["x"] + place["w"] <= 24, panel["title"]
        taken |= area
        assert panel["datasource"] == {"type": "prometheus", "uid": "${source}"}
        assert panel["description"], panel["title"]
    variables = {each["name"] for each in board["templating"]["list"]}
    assert set(re.findall(r"\$(\w+)", " ".join(expressions))) <= variables


def test_alerts_ask_for_metrics_that_there_are() -> None:
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][0]["rules"]
    tried = yaml.safe_load((MONITORING / "alerts.test.yml").read_text())["tests"][0]["alert_rule_test"]
    assert asked(" ".join(rule["expr"] for rule in rules)) <= metrics()
    for rule in rules:
        assert {"summary", "description"} <= set(rule["annotations"])
        assert any(each["exp_alerts"] for each in tried if each["alertname"] == rule["alert"]), (
            f"{rule['alert']}: untried"
        )


@wants("promtool")
def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    for name in ("alerts.yml", "alerts.test.yml"):
        shutil.copy(MONITORING / name, tmp_path / name)

    def code() -> int:
        return subprocess.run(
            ["promtool", "test", "rules", "alerts.test.yml"], cwd=tmp_path, capture_output=True
        ).returncode

    subprocess.run(["promtool", "check", "rules", "alerts.yml"], cwd=tmp_path, check=True, capture_output=True)
    assert code() == 0
    changed = (tmp_path / "alerts.yml").read_text().replace("> 0.95", "> 0.995")
    (tmp_path / "alerts.yml").write_text(changed)
    assert code() != 0


# --- the gate for CI --------------------------------------------------------------------------------------------------

GATE = PACKAGING / "action" / "gate.sh"


def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((PACKAGING / "action" / "action.yml").read_text())
    return found


def test_no_input_of_the_action_is_a_command() -> None:
    used: set[str] = set()
    for step in action()["runs"]["steps"]:
        assert "${{" not in step["run"]
        used |= set(re.findall(r"inputs\.([\w-]+)", json.dumps(step)))
    assert used == set(action()["inputs"])
    names = set(action()["runs"]["steps"][-1]["env"]) - {"GATE"}
    assert names <= set(re.findall(r"\$\{?(\w+)", GATE.read_text()))
    outputs = re.findall(r'echo "(\w+)=', GATE.read_text())
    assert set(outputs) == set(action()["outputs"])


@pytest.fixture
def gate(tmp_path: Path) -> Any:
    """The gate's script with a `wirespeed` that keeps what it was asked and read, in a repository of one scenario."""
    stub = tmp_path / "bin" / "wirespeed"
    stub.parent.mkdir()
    stub.write_text(
        '#!/bin/bash\nprintf "%s\\n" "$@" > "$KEPT/asked"\ncp -f "$2" "$KEPT/before" 2>/dev/null\n'
        'cp -f "$3" "$KEPT/after" 2>/dev/null\necho \'the ```comparison```\'\nexit "${CODE:-0}"\n'
    )
    stub.chmod(0o755)
    repository = tmp_path / "repository"
    repository.mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    (repository / "my.toml").write_text("name = 'before'\n")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "a"]):
        subprocess.run([*git, *command], cwd=repository, check=True)
    (repository / "my.toml").write_text("name = 'after'\n")

    def call(**given: str) -> tuple[int, str, Path]:
        env = {"PATH": f"{stub.parent}:{os.environ['PATH']}", "KEPT": str(tmp_path), "HOME": str(tmp_path)}
        env |= {"GITHUB_OUTPUT": str(tmp_path / "outputs"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")} | given
        done = subprocess.run(["bash", GATE], cwd=repository, env=env, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr, tmp_path

    return call


def test_the_gate_compares_a_scenario_with_what_a_commit_has(gate: Any) -> None:
    hostile = "p99 > +5%; touch /tmp/x $(id) `id`"
    code, _, kept = gate(
        SCENARIO="my.toml", BASELINE="git:HEAD", FAIL_IF=f"\n{hostile}\n  \nloss > 0.001\r\n", SETTINGS="a.b=1"
    )
    assert code == 0
    assert ((kept / "before").read_text(), (kept / "after").read_text()) == ("name = 'before'\n", "name = 'after'\n")
    asked = (kept / "asked").read_text().splitlines()
    assert asked[asked.index("--set") + 1] == "a.b=1"
    assert [asked[at + 1] for at, word in enumerate(asked) if word == "--fail-if"] == [hostile, "loss > 0.001"]
    assert "report=wirespeed-gate/comparison.html" in (kept / "outputs").read_text()
    summary = (kept / "summary").read_text()
    assert summary.splitlines()[0] == "```text"
    assert summary.count("```") == 2
    assert not list((kept / "repository").glob(".baseline-*"))


def test_the_gate_judges_different_traffic_where_it_is_meant(gate: Any) -> None:
    for given, code, judges in (("", 0, False), ("refuse", 0, False), ("judge", 0, True), ("yes", 2, False)):
        found, told, kept = gate(SCENARIO="my.toml", BASELINE="forwarding", DIFFERENT_TRAFFIC=given)
        assert found == code, told
        if code == 0:
            assert ("--different-traffic" in (kept / "asked").read_text().splitlines()) == judges
    assert action()["inputs"]["different-traffic"]["default"] == "refuse"


def test_the_gate_ends_as_the_comparison_does(gate: Any) -> None:
    for code in ("1", "2"):
        assert gate(SCENARIO="my.toml", BASELINE="forwarding", CODE=code)[0] == int(code)


def test_what_cannot_be_told_passes_the_gate_with_a_warning_unless_it_may_not(gate: Any) -> None:
    for undecided, code, said in (("", 0, "::warning "), ("warn", 0, "::warning "), ("fail", 1, "::error ")):
        found, told, kept = gate(SCENARIO="my.toml", BASELINE="forwarding", CODE="4", UNDECIDED=undecided)
        assert (found, said in told, "cannot be told" in told) == (code, True, True), told
        assert "report=" in (kept / "outputs").read_text()
    for code in ("0", "1", "2"):
        found, told, _ = gate(SCENARIO="my.toml", BASELINE="forwarding", CODE=code, UNDECIDED="fail")
        assert (found, "cannot be told" in told) == (int(code), False)
    assert gate(SCENARIO="my.toml", BASELINE="forwarding", UNDECIDED="perhaps")[0] == 2
    assert action()["inputs"]["undecided"]["default"] == "warn"


def test_the_gate_says_what_is_wrong_with_a_baseline(gate: Any) -> None:
    for given, what in (
        ({"SCENARIO": "my.toml", "BASELINE": "git:nowhere"}, "no such commit"),
        ({"SCENARIO": "my.toml", "BASELINE": "git:--output=/tmp/x"}, "no such commit"),
        ({"SCENARIO": "forwarding", "BASELINE": "git:HEAD"}, "is no file of the repository"),
        ({}, "names what is judged"),
    ):
        code, said, _ = gate(**given)
        assert code != 0
        assert what in said, said


def test_the_gate_stops_a_scenario_that_got_worse(tmp_path: Path) -> None:
    wirespeed = tmp_path / "wirespeed"
    wirespeed.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m wirespeed "$@"\n')
    wirespeed.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "python"),
        "SCENARIO": "forwarding,machine.core.frequency=1 GHz",
        "BASELINE": "forwarding",
        "FAIL_IF": "mean > +2%",
        "SETTINGS": "run.packets=3000\nrun.curve=[]\nfunction.forward.prefixes=100",
    }
    done = subprocess.run(["bash", GATE], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert (tmp_path / "wirespeed-gate" / "comparison.html").exists()
    assert "<failure" in (tmp_path / "wirespeed-gate" / "junit.xml").read_text()


# --- image, editors, bill of materials --------------------------------------------------------------------------------


def test_the_image_runs_as_nobody_of_note() -> None:
    text = (PACKAGING / "image" / "Containerfile").read_text()
    steps = re.findall(r"^([A-Z]+) (.+)$", text, re.MULTILINE)
    users = [value for step, value in steps if step == "USER"]
    assert users == ["10001"]
    for step, value in steps:
        if step == "FROM":
            assert re.search(r":[\d.]+[\w.-]*", value), f"{value}: which version?"
    assert [value for step, value in steps if step == "ENTRYPOINT"] == ['["wirespeed"]']
    # Who writes into the folder of another user is the caller: the image's own user may not.
    runs = re.findall(r"podman run (.+)$", text, re.MULTILINE)
    assert runs
    assert all('--userns=keep-id --user "$(id -u):$(id -g)"' in line for line in runs if "--volume" in line)
    hadolint = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint:
        subprocess.run([hadolint, PACKAGING / "image" / "Containerfile"], check=True)


def test_editors_find_the_schema() -> None:
    entry = json.loads((PACKAGING / "schemastore.json").read_text())
    assert set(entry) == {"name", "description", "fileMatch", "url"}  # what SchemaStore's catalogue wants, and no more
    assert all(name.endswith("wirespeed.toml") for name in entry["fileMatch"])
    host, _, path = entry["url"].partition("/main/")
    assert host == "https://raw.githubusercontent.com/wirespeed/wirespeed"
    assert json.loads((ROOT / path).read_text())["$schema"].startswith("https://json-schema.org/draft")


def test_the_development_container_makes_what_there_is() -> None:
    found = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert set(found) <= {"name", "image", "features", "postCreateCommand", "customizations"}
    assert re.search(r":\d", found["image"])
    made = re.fullmatch(r"make (\w+)", found["postCreateCommand"])
    assert made is not None
    assert re.search(rf"^{made[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    schemas = found["customizations"]["vscode"]["settings"]["evenBetterToml.schema.associations"]
    for pattern, schema in schemas.items():
        assert any(re.search(pattern, str(path)) for path in (ROOT / "presets").rglob("*.toml"))
        assert (ROOT / schema.rpartition("}/")[2]).exists()


@pytest.mark.skipif(shutil.which("cargo") is None, reason="wants cargo")
def test_the_bill_of_materials_has_every_crate_and_every_package() -> None:
    import sbom

    found = sbom.document()
    refs = [each["bom-ref"] for each in found["components"]]
    assert len(refs) == len(set(refs))
    crates = {f"pkg:cargo/{each['name']}@{each['version']}" for each in licences.linked()}
    assert {each for each in refs if each.startswith("pkg:cargo/")} == crates
    packages = {each["name"]: each for each in found["components"] if each["purl"].startswith("pkg:pypi/")}
    wanted = {
        re.split(r"[<>=]", each)[0]
        for each in sbom.tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    }
    assert wanted <= set(packages)
    assert "markupsafe" in packages  # what Jinja wants, and nobody here names
    for row in found["dependencies"]:
        assert row["ref"] in {*refs, found["metadata"]["component"]["bom-ref"]}
        assert set(row["dependsOn"]) <= set(refs)
    hashed = [each for each in found["components"] if "hashes" in each]
    assert len(hashed) == len(crates)
    assert sbom.document() == found


# --- the list of a release --------------------------------------------------------------------------------------------


def checks(*outcomes: str) -> Iterator[release.Check]:
    for outcome in outcomes:

        def judge(outcome: str = outcome) -> str:
            if outcome == "missing":
                raise release.NotJudgedError("wants it")
            if outcome == "fails":
                raise release.DoesNotHoldError("is not so")
            return "is so"

        yield release.Check(outcome, judge)


def test_a_check_that_could_not_be_made_is_no_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert release.walk(list(checks("holds", "holds"))) == 0
    assert release.walk(list(checks("holds", "missing"))) == 3
    assert release.walk(list(checks("missing", "fails", "holds"))) == 1
    assert "1 hold, 1 fail, 1 were not judged" in capsys.readouterr().out
    with pytest.raises(release.NotJudgedError, match="wants no-such-tool"):
        release.run("no-such-tool")
    with pytest.raises(release.DoesNotHoldError, match="exit code 1"):
        release.run("false")
    with pytest.raises(release.DoesNotHoldError, match="a word"):
        release.run("echo", "a word", quiet=True)


def test_a_tool_that_does_not_end_fails_its_check_and_the_walk_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release, "LONGEST_S", 0.1)
    hangs = release.Check("it ends", lambda: release.run("sleep", "60"))
    assert release.walk([hangs, *checks("holds")]) == 1
    said = capsys.readouterr().out
    assert "it ends: sleep: has not ended after 0.1 s: run `sleep 60` by itself" in said
    assert "1 hold, 1 fail" in said


def test_checksums_find_what_was_changed_and_what_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "DIST", tmp_path)
    (tmp_path / "a.whl").write_text("a")
    with pytest.raises(release.DoesNotHoldError, match="is missing"):
        release.sums_agree()
    release.sums()
    assert release.sums_agree() == "1 files"
    (tmp_path / "b.deb").write_text("b")
    with pytest.raises(release.DoesNotHoldError, match=r"not listed: b\.deb"):
        release.sums_agree()
    (tmp_path / "a.whl").write_text("changed")
    with pytest.raises(release.DoesNotHoldError, match=r"a\.whl: FAILED"):
        release.sums_agree()
    with pytest.raises(release.DoesNotHoldError, match="has nothing like"):
        release.made("*.tar.gz")


def test_the_list_of_a_release_has_each_check_once_and_says_what_it_judges() -> None:
    words = [check.words for check in release.CHECKS]
    assert len(words) == len(set(words)) == 18
    assert all(check.judge.__doc__ for check in release.CHECKS)
    assert release.security_has_its_parts()
    # Each that listens has its row.
    security = (ROOT / "SECURITY.md").read_text()
    parts = re.findall(r"^\| (.+?) \|", security.partition("## Who may send")[2], re.MULTILINE)
    for what in ("`wirespeed explore`", "`wirespeed explore --open`", "`wirespeedd` (root)", "`wirespeedd --simulate`"):
        assert any(part.startswith(what) for part in parts), what
    listens = re.search(r'listen: "([\d.:]+)"\.into', (ROOT / "crates" / "daemon" / "src" / "config.rs").read_text())
    assert listens is not None
    assert f"`{listens[1]}`" in security
    makefile = (ROOT / "Makefile").read_text()
    steps = re.search(r"^release-check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert steps is not None
    for target in ("wheel", "sdist", "deb", "sbom", "release.py sums", "release.py check"):
        assert target in steps[1]
