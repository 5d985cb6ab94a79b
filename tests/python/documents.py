"""Code blocks of documents: found by themselves, told apart, and run.

A page is a session: its commands run one after the other in a folder of their own, where files that pages talk about
(`trace.pcap.gz`, `rib.mrt.gz`, `my.toml`, ...: `stock`) lie. A block with `title="NAME"` behind its language is written
there as NAME. `cd` holds to the end of its block, and what ends with `&` runs to the end of the page.

What is run: fenced blocks of `sh` and `python`, indented lines that begin with `wirespeed`, and `toml` blocks without a
title, which are scenarios. `wirespeed` commands run in this process, with less to do (`smaller`): what is tried is that
they do what they are said to do, not what comes out. What is not run stands in `ONLY_LOOKED_AT` with its reason, or in
`WANTS` with what a machine must have for it; of that, names of commands and their options, and the values of options,
go through the parser all the same. A comment before a block, `<!-- only looked at: REASON -->`, does the same for a
block of Python. What takes more than seconds even when it is made smaller (`SLOW`) runs with `make test-slow`, and what
it promises is checked (`PROMISES`).

A block of `text` (or `json`) is what the last block of commands before it prints, files that it writes left out. Its
shape is compared (`shape`): words, headings, units and signs, with numbers masked and bars left out, however lines are
broken. A line `…` stands for lines that the page leaves out. What no command of the page prints, as errors are, has a
comment before it, `<!-- printed by: COMMAND -->`: that runs in an empty folder and has to end with exit code 2. What
cannot be compared has `<!-- not compared: REASON -->`.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import typer

import smaller
from stock import frame
from wirespeed import cli
from wirespeed.commands import exits

__all__ = ["Block", "Session", "blocks", "commands", "frame", "pages", "run", "skipped"]

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
BIN = Path(sys.executable).parent
FENCE = re.compile(
    r"(?:<!-- (?:(?:only looked at|not compared|sample): (?P<why>.*?)|printed by:\s(?P<by>.*?)) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w+)(?: +title=\"(?P<title>[^\"]+)\")?[^\n]*\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
INDENTED = re.compile(r"^    (?P<text>(?:\.venv/bin/)?wirespeed (?:.*\\\n)*.*)$", re.MULTILINE)
OURS = re.compile(r"(\.venv/bin/)?wirespeed(\s|$)")
DAEMON = re.compile(r"(\.venv/bin/)?wirespeedd\s")
SHELL = ("sh", "bash", "console")
PRINTED = ("text", "json")
# What no test runs, by the beginning of the command or of the block of Python, and why.
ONLY_LOOKED_AT: Final = {
    "make demo": "builds everything, and this test with it; continuous integration is a clean clone",
    "make test": "is what runs this test",
    "git clone": "wants a network",
    "pip install": "wants a network, and changes the environment; tests/house/test_packaging.py installs a wheel",
    "sudo apt-get": "wants root and a network; `.ci/run` takes it from README.md and runs it",
    "from dask_jobqueue": "wants Slurm; tests/python/test_cluster.py has a cluster of processes",
}
# What runs with `make test-slow` alone, by the beginning of the command, and why.
SLOW: Final = {
    "wirespeed calibrate": "measures this machine for most of a minute",
    "wirespeed tune --target testpmd": "starts dpdk-testpmd some twenty times",
    "wirespeed papers run 2011-dac-hermes": "all its points are run for any claim",
    "wirespeed papers run 2020-access-korikawa --real-size": "a table of 2^27 entries takes half a minute",
}
_STUDY: Final = ("claims.json", "points.csv", "figures.html", "kept.jsonl")
# Of these, what the folder of `--out` has then (None: it is a file itself), and what is printed.
PROMISES: Final[Mapping[str, tuple[tuple[str, ...] | None, tuple[str, ...]]]] = {
    "wirespeed calibrate": (
        None,
        (r"Clock +[\d.,]+ [GM]Hz", r"DRAM +[\d.]+ ns", r"In the mean a factor of [\d.]+ off"),
    ),
    "wirespeed tune --target testpmd": (
        ("tuning.html", "tuning.json", "journal.jsonl"),
        ("as it is", "joint search", "Run the best", "dpdk-testpmd .*--burst=", "M/CPU-s|per CPU-second"),
    ),
    "wirespeed papers run 2011-dac-hermes": (
        (*_STUDY, "fig3a-letter.svg"),
        (r"\d+ reproduced, \d+ partly, \d+ not", r"mean\s+delay", r"interquartile\s+range"),
    ),
    "wirespeed papers run 2020-access-korikawa --real-size": (
        (*_STUDY, "fig16-literal.svg"),
        (r"\d+ reproduced, \d+ partly, \d+ not", r"2\^27\s+entries"),
    ),
}
# What runs where the machine has what it wants: a part of the command, what that is, and whether it is there.
WANTS: Final[tuple[tuple[str, str, Callable[[], bool]], ...]] = (
    ("cd examples/router", "a C compiler and valgrind", lambda: has("cc", "make", "valgrind")),
    ("by-hand.probe", "a C compiler and valgrind", lambda: has("cc", "make", "valgrind")),
    ("by-valgrind", "a C compiler and valgrind", lambda: has("cc", "make", "valgrind")),
    ("cd examples/dpdk", "DPDK's headers", lambda: has("cc", "make") and has_dpdk()),
    (
        "wirespeed run scenario.toml --out out",
        "DPDK's headers",
        lambda: has("cc", "make") and has_dpdk(),
    ),
    ("--reading auckland", "../shared/data", (SHARED / "data").is_dir),
    ("--target testpmd", "dpdk-testpmd (Debian's dpdk-dev)", lambda: has("dpdk-testpmd")),
    ("wirespeedd ", "wirespeedd (make build)", (BIN / "wirespeedd").exists),
    ("--interface dut0", "an interface dut0, whose packets it takes", Path("/sys/class/net/dut0").exists),
    ("dask ", "the extra cluster", (BIN / "dask").exists),
    ("--install-completion", "the command in the virtual environment", (BIN / "wirespeed").exists),
)
# What takes seconds even when it is small is run where it stands first: all of them, or those with the same options.
ONCE: Final = {
    "papers": "all words",
    "advise": "options",
    "copies": "all words",
    "tune": "all words",
    "accuracy": "all words",
    "memory": "all words",
}
# Commands whose answers are for people, and have to fit into a terminal.
SHOWN: Final = frozenset(
    {"run", "import", "compare", "size", "predict", "memory", "doctor", "gpu", "copies", "slices", "inspect"}
    | {"microengines"}
)
# But for what other programs read: JSON, configurations.
READ_BY_PROGRAMS: Final = frozenset({"json", "--emit"})
TO_BE_COPIED: Final = re.compile(r"  (?:wirespeed|wirespeedd|dpdk-testpmd|\S*/\S+|ovs-vsctl) ")
# What stands before the time that `wirespeed memory dram` itself took.
_OWN_TIME: Final = r"clocks of # MHz"
_ran: dict[tuple[str, ...], str] = {}
_running: list[subprocess.Popen[str]] = []


@dataclass(slots=True)
class Session:
    """What a page has done so far: what it did not run or compare, with reasons, and its last block of commands."""

    slow: bool = False
    """Whether what is slow is run, and that alone."""
    printed: str = ""
    """What the last block of commands printed."""
    left: list[str] = field(default_factory=list)
    """Of that block, what was not run, with reasons."""
    not_run: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page: language, text, line, the name it is saved under, why it is not run, and what prints it."""

    language: str
    text: str
    line: int
    title: str | None = None
    why: str | None = None
    by: str | None = None


def pages() -> list[Path]:
    """Every page that a stranger reads."""
    found = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "papers").rglob("*.md"),
    ]
    return sorted(page for page in found if blocks(page))


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    spans = []
    for match in FENCE.finditer(text):
        spans.append(match.span())
        indent = len(match["indent"])
        inner = "\n".join(line[indent:] for line in match["text"].splitlines())
        line = text.count("\n", 0, match.start("text")) + 1
        found.append(Block(match["language"], inner, line, match["title"], match["why"], match["by"]))
    found.extend(
        Block("sh", match["text"], text.count("\n", 0, match.start()) + 1)
        for match in INDENTED.finditer(text)
        if not any(start <= match.start() < end for start, end in spans)
    )
    ran = {*SHELL, *PRINTED, "python", "toml", "csv"}
    return sorted((b for b in found if (b.language in ran or b.title) and "--8<--" not in b.text), key=lambda b: b.line)


def commands(block: Block) -> Iterator[tuple[int, str]]:
    """The commands of a block of `sh`, with their lines; continued lines are one."""
    text, start = "", 0
    for i, raw in enumerate(block.text.splitlines()):
        line = raw.removeprefix("$ ") if block.language == "console" else raw
        text, start = (text + line, start) if text else (line, i)
        if text.endswith("\\"):
            text = text[:-1]
            continue
        command = text.strip()
        text = ""
        if command and not command.startswith("#"):
            yield block.line + start, command


def skipped(command: str, block: Block) -> str | None:
    """Why a command, or a block of Python, is not run, if it is not."""
    return never_run(command, block) or next(
        (f"wants {what}" for part, what, is_there in WANTS if part in command and not is_there()), None
    )


def not_compared(found: list[Block], place: int) -> str | None:
    """Why the output at `place` of a page's blocks is not compared on this machine, if it is not."""
    block = found[place]
    if block.why or block.by:
        return block.why
    before = [each for each in found[:place] if each.language in SHELL][-1:]
    return next(
        (why for each in before for _, text in commands(each) if (why := skipped(text, each) or slow(text))),
        None if before else "no block of commands is before it",
    )


def slow(command: str) -> str | None:
    """Why it runs with `make test-slow` alone, if it does."""
    return _starts(command, SLOW)


def never_run(command: str, block: Block) -> str | None:
    """Why it is not run on any machine."""
    return block.why or _starts(command, ONLY_LOOKED_AT)


def _starts(command: str, among: Mapping[str, Any]) -> Any:
    plain = command.removeprefix(".venv/bin/")
    return next((found for start, found in among.items() if plain.startswith(start)), None)


def is_ours(command: str) -> bool:
    """Whether it is a `wirespeed` command."""
    return bool(OURS.match(command))


def look_at(command: str) -> None:
    """Check that a command and its options exist, and take their values. Raises AssertionError.

    Of other programs' commands that are not run: that they name what is here.
    """
    if not is_ours(command):
        _look_at_other(command)
        return
    words, _ = parsed(command)
    group: Any = typer.main.get_command(cli.app)
    context = group.make_context("wirespeed", [], resilient_parsing=True)
    while words and hasattr(group, "commands") and not words[0].startswith("--"):
        name = words.pop(0)
        assert name in group.commands, f"no command {name!r}"
        group = group.commands[name]
    known = {option for parameter in group.params for option in parameter.opts + parameter.secondary_opts}
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in known, f"no option {word}"
    if not hasattr(group, "commands"):
        group.make_context(group.name, words, parent=context)


def _look_at_other(command: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    match shlex.split(command, comments=True):
        case ["make", target]:
            assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE), (
                f"make has no target {target!r}"
            )
        case ["pip", "install", what]:
            (name, extra) = re.fullmatch(r"([\w-]+)\[(\w+)\]", what).groups()  # type: ignore[union-attr]
            assert name == project["name"], name
            assert extra in project["optional-dependencies"], f"no extra {what}"
        case ["git", "clone", url, "&&", "cd", folder]:
            assert f": {url}\n" in (ROOT / "CITATION.cff").read_text(), (
                f"{url} is not where CITATION.cff says that it lies"
            )
            assert folder == url.rpartition("/")[2], folder
        case _:
            done = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


def look_at_python(text: str) -> None:
    """Check that it is Python, and that what it takes from `wirespeed` is there. Raises AssertionError, SyntaxError."""
    import wirespeed

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "wirespeed":
            assert hasattr(wirespeed, node.attr), f"no wirespeed.{node.attr}"


def run(command: str) -> str:
    """Run a command in the folder at hand; what it printed, or what such a command did that has run before (`ONCE`).

    What goes to a file is not printed. Raises AssertionError with what it said where it fails, or does not do what it
    promises.
    """
    place, found, behind = command.partition(" && ")
    if found and place.startswith("cd "):
        os.chdir(place.removeprefix("cd "))
        command = behind
    if not is_ours(command) or "--install-completion" in command:
        return _run_other(command)
    words, target = parsed(command)
    if words[0] == "explore":
        return _until_ctrl_c([word for word in words if word != "--open"])
    if words[0] in ONCE:
        key = words if ONCE[words[0]] == "all words" else [words[0], *(word for word in words if word[:2] == "--")]
        if tuple(key) in _ran:
            return _to_file(_ran[tuple(key)], target)
    out_at = Path(words[words.index("--out") + 1]) if "--out" in words else None
    if out_at is not None and out_at.is_symlink():
        out_at.unlink()  # of the files that all pages share
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.app(args=smaller.smaller(words), prog_name="wirespeed", standalone_mode=False)
        except Exception as e:
            raise AssertionError(f"{e}\n{err.getvalue()[-500:]}") from e
    # A condition that holds, or that a short run cannot tell, is an answer, too, and so is a machine without a GPU.
    answers = {None, 0}
    answers |= {exits.EXIT_CONDITION, exits.EXIT_UNDECIDED} if "--fail-if" in words else set()
    answers |= {exits.EXIT_NO_GPU} if words[:2] == ["router", "probe"] else set()
    assert code in answers, err.getvalue()[-500:]
    if (promised := _starts(command, PROMISES)) is not None:
        _is_kept(promised, out_at, out.getvalue())
    if target is None and words[0] in SHOWN and not READ_BY_PROGRAMS & set(words):
        fits(out.getvalue())
    if words[0] in ONCE:
        _ran[tuple(key)] = out.getvalue()
    return _to_file(out.getvalue(), target)


def fits(printed: str, width: int = 80) -> None:
    """Check that what is printed fits into so many columns, and that no table had to cut a word or a number off.

    A command that is to be copied is printed in one piece where no terminal shows it. Raises AssertionError.
    """
    lines = [line for line in printed.splitlines() if not TO_BE_COPIED.match(line)]
    wide = [line for line in lines if len(line) > width or re.search(r"\w…", line)]
    assert not wide, f"wider than {width} columns, or cut off:\n" + "\n".join(wide[:5])


def _until_ctrl_c(words: list[str]) -> str:
    """What a command that serves has printed when it is ready, and is told to end."""
    command = [sys.executable, "-m", "wirespeed", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        ready = serving.stdout.readline()
        serving.send_signal(signal.SIGINT)
        assert (serving.wait(timeout=30), ready[:4]) == (0, "http"), words
    return ready


def _to_file(printed: str, target: str | None) -> str:
    """What is printed where the output goes to `target`, if to any file."""
    if target is None:
        return printed
    Path(target).write_text(printed, encoding="utf-8")
    return ""


def error(command: str) -> str:
    """What a command that cannot succeed prints, in an empty folder, by the shell. Raises AssertionError."""
    # As the command does, which need not be installed where the package is.
    ours = f'wirespeed() {{ {shlex.quote(sys.executable)} -c "from wirespeed.cli import main; main()" "$@"; }}'
    with tempfile.TemporaryDirectory() as folder:
        shell = ["bash", "-c", f"{ours}\n{command}\nexit $?"]
        # As wide as it comes: lines may be broken anywhere where they are compared.
        done = subprocess.run(shell, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == exits.EXIT_INPUT, f"ends with {done.returncode}: {(done.stdout + done.stderr)[-500:]}"
    return done.stdout + done.stderr


def _is_kept(promised: tuple[tuple[str, ...] | None, tuple[str, ...]], out: Path | None, printed: str) -> None:
    files, lines = promised
    if out is not None:
        for file in [out] if files is None else [out / name for name in files]:
            assert file.is_file(), f"{file} is not written"
            assert file.stat().st_size > 0, f"{file} is empty"
    for line in lines:
        assert re.search(line, printed), f"{line!r} is not in {printed}"


def shape(text: str) -> str:
    """What a text has but numbers, bars and rules; one space between words, however lines are broken.

    Digits of names stay, and so do signs, bounds and units; but for the unit of the time that a run itself took, which
    depends on the machine.

    >>> shape("  14.3 GB/s, +74.5 % on ddr4-2400 in 98 ms\\n ██  data   < 0.1 %")
    '# GB/s, +# % on ddr4-2400 in # ms data < # %'
    >>> shape("5,372,367 clocks\\n of 1,200 MHz · 55.5 ms")
    '# clocks of # MHz #'
    """
    words = re.sub(r"[█▓▒░·│]+|[─━═]{2,}", " ", text)
    number = r"([A-Za-z_]\w*(?:[-.]\w+)*)|\d(?:[\d,.]*\d)?(?:e[+-]?\d+)?"
    words = " ".join(re.sub(number, lambda found: found[1] or "#", words).split())
    return re.sub(rf"({_OWN_TIME} #) (?:ns|µs|ms|s)\b", r"\1", words)


def compare(shown: str, printed: str) -> None:
    """Check that what a page shows has the shape of what is printed, in order. Raises AssertionError."""
    found, at = shape(printed), 0
    for part in re.split(r"^ *… *$", shown, flags=re.MULTILINE):
        wanted = shape(part)
        place = found.find(wanted, at)
        assert place >= 0, f"shown is\n      {wanted}\n    printed is\n      {found[at:] or printed!r}"
        at = place + len(wanted)


def _run_other(command: str) -> str:
    """Runs a command by the shell, with this virtual environment's programs first, and a home of its own."""
    home = Path("home").absolute()
    home.mkdir(exist_ok=True)
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": str(home)}
    command = command.removeprefix(".venv/bin/").replace(smaller.PORT, smaller.page_port())
    command = re.sub(r"\bsleep \d+", "sleep 0.2", command)
    command = re.sub(r"^python3\b", shlex.quote(sys.executable), command)
    if DAEMON.match(command) and " run " in command:
        command = f"{command.partition('#')[0]} --intervals 2"
    elif DAEMON.match(command) and re.search(r"--simulate \w+ *$", command.partition("#")[0]):
        command = f"{command.partition('#')[0]} --no-wait run --apply --intervals 2"
    if command.endswith("&"):
        shell = ["bash", "-c", f"exec {command[:-1]}"]
        _running.append(
            subprocess.Popen(
                shell, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
                start_new_session=True,
            )
        )  # fmt: skip
        return ""
    # The shell stays, as a reader's does: completion is for the shell that it is called from.
    shell = ["bash", "-c", f"{command}\nexit $?"]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, (done.stdout + done.stderr)[-500:]
    return done.stdout


def end_page() -> None:
    """Ends what a page has left running, with what that has started."""
    while _running:
        left = _running.pop()
        assert left.poll() is None, f"{left.args} has ended with {left.returncode}"
        os.killpg(left.pid, signal.SIGTERM)
        try:
            left.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(left.pid, signal.SIGKILL)
            left.wait()


def parsed(command: str) -> tuple[list[str], str | None]:
    """Words behind `wirespeed`, and the file that its output goes to."""
    words = shlex.split(command, comments=True)[1:]
    if ">" in words:
        return words[: words.index(">")], words[words.index(">") + 1]
    return words, None


def has(*programs: str) -> bool:
    """Whether this machine has all of these."""
    return all(shutil.which(program) is not None for program in programs)


def has_dpdk() -> bool:
    """Whether programs can be built with DPDK."""
    return has("pkg-config") and subprocess.run(["pkg-config", "--exists", "libdpdk"]).returncode == 0
