"""What comes from files, names and paths reaches a terminal as text: no control character of theirs is obeyed."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from wirespeed import console, terminal

# A title of the window, a colour, a bell, the C1 form of an escape, a bidirectional override.
EVIL = "\x1b]0;pwn\x07\x1b[2K\x1b[32mfine\x9b1A\u202e\x08\x0d"
# Rich drops a bell, a backspace and a carriage return by itself.
SHOWN = r"\x1b]0;pwn\x1b[2K\x1b[32mfine\u009b1A\u202e"
QUICK = ["--set=run.packets=2000", "--set=run.warmup=500", "--set=run.curve=[]"]
RAW = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def command(*arguments: str | Path, cwd: Path | None = None) -> tuple[int, str, str]:
    """The exit code, and what was printed, as it is."""
    called = [sys.executable, "-m", "wirespeed", *map(str, arguments)]
    ran = subprocess.run(called, capture_output=True, cwd=cwd, timeout=300)
    return ran.returncode, ran.stdout.decode(), ran.stderr.decode()


def toml(text: str) -> str:
    """As a string of TOML."""
    return json.dumps(text).replace("\x7f", "\\u007f")


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """One whose title, machine and recorded region carry escapes, under a path that does."""
    folder = tmp_path / "a\x1b[31mb\u202e"
    folder.mkdir()
    (folder / "r.probe").write_text(f"wirespeed-probe 1\nR shared 1000 64 {EVIL[:-2]}\nB 60 100\nL 1000 8\nE forward\n")
    (folder / "s.toml").write_text(
        f"name = {toml(EVIL)}\n[machine]\nname = {toml(EVIL)}\n[function]\nkind = 'trace'\ntrace.file = 'r.probe'\n"
    )
    return folder / "s.toml"


def test_run_sweep_compare_and_recordings_show_what_names_and_paths_hold(scenario: Path) -> None:
    wrong = scenario.with_name("w\x1b[1m.toml")
    wrong.write_text(f"{toml(EVIL)} = 1\n")
    folder = scenario.with_name("o\x1b[1m")
    for arguments, code, said in (
        (["run", scenario, *QUICK, "--out", folder], 0, SHOWN),
        (["run", scenario, *QUICK, "--format", "json"], 0, r"\u001b]0;pwn"),
        (["run", wrong], 2, r"\x1b[1m.toml"),
        (["run", scenario, "--no\x1b[31m"], 2, r"\x1b[31m"),
        (["run", scenario, f"--set=machine.{EVIL}=1"], 2, r"\x1b]0;pwn\x07"),
        (["compare", scenario, f"{scenario},run.seed=5", *QUICK], 0, SHOWN),
        (["compare", folder, scenario, *QUICK], 0, SHOWN),
        (
            ["sweep", scenario, "--vary=run.seed=1,2", *QUICK, "--jobs=1", "--out", folder.with_name("z\x07")],
            0,
            r"z\x07",
        ),
        (["inspect", scenario], 2, r"\x1b[31mb"),
        (["inspect", f"{scenario}\x1b[5m"], 2, r"\x1b[5m"),
        (["recording", "show", scenario.with_name("r.probe")], 0, r"\x1b]0;pwn"),
        (["presets", EVIL], 2, r"\x1b]0;pwn\x07"),
        ([EVIL], 2, r"\x1b]0;pwn"),
    ):
        left, out, err = command(*arguments, cwd=scenario.parent)
        printed = out + err
        assert left == code, printed
        assert not RAW.findall(printed), (arguments, printed)
        assert said in printed.replace("\n", ""), (arguments, printed)


def test_json_with_such_names_is_json_and_means_the_same(scenario: Path) -> None:
    assert json.loads(command("run", scenario, *QUICK, "--format", "json")[1])["name"] == EVIL


def test_a_name_of_a_megabyte_is_cut(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(f'name = "{"n" * 1_000_000}"\n')
    code, out, _ = command("run", tmp_path / "s.toml", *QUICK)
    assert code == 0
    assert "more characters" in out
    assert len(out) < 20_000
    code, _, err = command("run", "n" * 100_000)
    assert code == 2
    assert len(err) < 20_000


def test_a_terminal_has_our_styles_and_none_of_a_names(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(f"name = {toml(EVIL)}\n")
    for arguments, styled in (
        (["run", str(tmp_path / "s.toml"), *QUICK, "--set=run.packets=60000"], "\x1b[1;33m"),
        (["run", "--help"], "\x1b[1m"),
        (["run", "--nope\x1b[32m"], "\x1b["),
    ):
        printed = _on_a_terminal([sys.executable, "-m", "wirespeed", *arguments])
        assert styled in printed
        # What is left beside styles, and the moves that rich makes for its bar, is text.
        rest = re.sub(r"\x1b\[(?:[0-9;]*m|\?25[lh]|[0-9]*[AK])|\r", "", printed)
        assert not RAW.findall(rest), rest
        assert "\x1b[32mfine" not in printed


def test_a_command_to_be_copied_fits_a_terminal_and_is_one_line_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    asked = ["run", "forwarding", *QUICK, "--set=function.forward.prefixes=1000", "--set=nic.rate=40 Gbps", "-q"]
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", _on_a_terminal([sys.executable, "-m", "wirespeed", *asked]))
    assert max(map(len, shown.splitlines())) <= 80
    folded = shown.partition("What do I type next?\n")[2].strip()
    _, whole, _ = command(*asked)
    said = whole.partition("What do I type next?\n")[2].strip()
    assert "\n" in folded
    assert "\n" not in said
    # A shell drops a backslash with the end of its line; Python does not.
    assert shlex.split(folded.replace("\\\n", "")) == shlex.split(said)


@pytest.mark.parametrize(
    "command",
    ["wirespeed run x", "wirespeed run 'what has no end", "a " * 60, "x --set 'a  b' --set=" + "c" * 90],
)
def test_a_command_that_cannot_be_folded_stays_as_it_is(command: str) -> None:
    folded = console.folded(command, 40)
    assert folded.replace(" \\\n ", "") == command


def _on_a_terminal(arguments: list[str]) -> str:
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm-256color"}
    started = subprocess.Popen(arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    printed = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:
            break
        if not part:
            break
        printed += part
    started.wait()
    os.close(ours)
    return printed.decode(errors="replace")


def test_all_that_is_printed_while_guarded_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with console.guarded():
        print(EVIL)
        print(EVIL, file=sys.stderr)
        console.Console().print(Text(EVIL))
        table = Table()
        table.add_column(EVIL)
        table.add_row(Text(EVIL))
        console.emit(terminal.text(table, console.Console(width=200)))
    printed = "".join(capsys.readouterr())
    assert printed.count(r"\x1b]0;pwn\x07") == 2
    assert SHOWN in printed
    assert r"│ \x1b]0;pwn" in printed
    assert not RAW.findall(printed)
    assert isinstance(sys.stdout, io.TextIOBase)


def test_only_one_file_prints_to_terminals() -> None:
    package = Path(console.__file__).parent
    for path in package.rglob("*.py"):
        text = path.read_text("utf-8")
        if path.name != "console.py" and re.search(r"\bConsole\(", text):
            assert "from wirespeed.console import Console" in text, path
            assert not re.search(r"rich\.console import [^\n]*\bConsole\b", text), path
