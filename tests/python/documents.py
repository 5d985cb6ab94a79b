"""Code blocks of documents: found by themselves, told apart, and run.

A page is a session: its commands run one after the other in a folder of their own, where files that pages talk about
(`trace.pcap.gz`, `rib.mrt.gz`, `my.toml`, ...) lie. A block with `title="NAME"` behind its language is written there
as NAME.

What is run: fenced blocks of `sh` and `python`, indented lines that begin with `wirespeed`, and `toml` blocks without a
title, which are scenarios. Commands run in this process, with small packet counts: what is tried is that they do what
they are said to do, not what comes out. A comment before a block, `<!-- only looked at: REASON -->`, says why it is not
run; what its `wirespeed` commands are called, and their options, are looked at all the same.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import re
import shlex
import struct
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

import wirespeed
from wirespeed import _wirespeed, cli
from wirespeed.advise import techniques

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(
    r"(?:<!-- only looked at: (?P<why>.*?) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w+)(?: +title=\"(?P<title>[^\"]+)\")?[^\n]*\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
INDENTED = re.compile(r"^    (?P<text>(?:\.venv/bin/)?wirespeed .*)$", re.MULTILINE)
# Of commands that are not `wirespeed`: what is never run, and why. The first that fits counts.
OTHERS = (
    (r"make (demo|test)", "set-up, tried by `make demo` and `make test` themselves"),
    (r"git clone|pip install|sudo|apt-get", "changes the machine"),
    (r"(\S*/)?wirespeedd", "the daemon has tests of its own (crates/daemon)"),
    (r"dask ", "starts a cluster; tests/python/test_cluster.py has one"),
    (r"make( |$)", "examples are built by tests/python/test_recording.py"),
)
# What commands may not do here.
NOT_HERE = (
    (r"tune --target", "runs a real packet processor; tests/python/test_tune.py does"),
    (r"tune .*--grid", "takes minutes"),
    (r"wirespeed calibrate", "measures this machine for most of a minute"),
    (r"papers run", "takes minutes; tests/python/test_papers.py runs them"),
    (r"router (bench|probe)", "wants a GPU, or takes minutes"),
    (r"memory buffers", "takes a minute"),
    (r"copies ", "takes minutes; tests/python/test_copies.py has some"),
    (r"advise (?!my\.toml --target)", "dozens of runs; one of these commands is run, and test_advise.py has others"),
)
# What takes seconds even with few packets is run where it stands first.
ONCE = ("advise",)
_ran: set[str] = set()
SHORT = ["run.packets=2000", "run.curve=[]", "run.search_packets=1000", "run.search_resolution=0.3"]
MADE = ["function.forward.prefixes=5000"]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page: its language, text, line, the name it is saved under, and why it is not run."""

    language: str
    text: str
    line: int
    title: str | None = None
    why: str | None = None


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
        found.append(Block(match["language"], inner, line, match["title"], match["why"]))
    found.extend(
        Block("sh", match["text"], text.count("\n", 0, match.start()) + 1)
        for match in INDENTED.finditer(text)
        if not any(start <= match.start() < end for start, end in spans)
    )
    ran = {"sh", "bash", "console", "python", "toml"}
    return sorted((b for b in found if b.language in ran and "--8<--" not in b.text), key=lambda b: b.line)


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
    """Why a command is not run, if it is not."""
    if block.why:
        return block.why
    known = NOT_HERE if is_ours(command) else OTHERS
    return next((why for pattern, why in known if re.search(pattern, command)), None)


def is_ours(command: str) -> bool:
    """Whether it is a `wirespeed` command."""
    return bool(re.match(r"(\.venv/bin/)?wirespeed(\s|$)", command))


def look_at(command: str) -> None:
    """Check that a `wirespeed` command and its options exist. Raises AssertionError."""
    words, _ = parsed(command)
    group: Any = typer.main.get_command(cli.app)
    while words and hasattr(group, "commands") and not words[0].startswith("--"):
        name = words.pop(0)
        assert name in group.commands, f"no command {name!r}"
        group = group.commands[name]
    known = {option for parameter in group.params for option in parameter.opts}
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in known, f"no option {word}"


def run(command: str) -> None:
    """Run a command in the folder at hand. Raises AssertionError with what it said where it fails."""
    if not is_ours(command):
        shell = command.replace("python3", shlex.quote(sys.executable), 1)
        done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr[-500:]
        return
    words, target = parsed(command)
    if words[0] in ONCE:
        if words[0] in _ran:
            return
        _ran.add(words[0])
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.app(args=smaller(words), prog_name="wirespeed", standalone_mode=False)
        except Exception as e:
            raise AssertionError(f"{e}\n{err.getvalue()[-500:]}") from e
    # A condition that holds is an answer, too.
    assert code in (None, 0) or ("--fail-if" in words and code == cli.EXIT_CONDITION), err.getvalue()[-500:]
    if target:
        Path(target).write_text(out.getvalue(), encoding="utf-8")


def parsed(command: str) -> tuple[list[str], str | None]:
    """Words behind `wirespeed`, and the file that its output goes to."""
    words = shlex.split(command, comments=True)[1:]
    if ">" in words:
        return words[: words.index(">")], words[words.index(">") + 1]
    return words, None


def smaller(words: list[str]) -> list[str]:
    """The same command with fewer packets."""
    # A folder of results is an operand, but not where `--out` names the one that a command before has written.
    has_folder = any(Path(word).is_dir() for word, before in zip(words[1:], words, strict=False) if before != "--out")
    if "--until" in words:
        # Short runs vary so much that it would take the most replications there may be.
        at = words.index("--until")
        words = words[:at] + words[at + 2 :]
    if "--scheduler" in words:
        at = words.index("--scheduler")
        words = [*words[: at + 1], str(cluster().scheduler_address), *words[at + 2 :]]
    if words[0] in {"run", "compare", "sweep"} and not has_folder:
        given = {word.partition("=")[0] for word in words}
        sets = [s for s in SHORT + MADE if s.partition("=")[0] not in given]
        upf = [] if "upf" not in words else ["function.upf.load.ues=200", "function.upf.load.pdrs=4"]
        return [*words, *(x for s in sets + upf for x in ("--set", s))]
    if words[0] == "sampling":
        more = ["function.upf.load.ues=200", "function.upf.load.pdrs=4"] if "upf" in words else MADE
        return [*words, *(x for s in [*SHORT, "run.warmup=500", *more] for x in ("--set", s))]
    if words[0] == "slices" and "--table" in words:
        return [*words, "--packets", "300", "--set", "requests=5000"]
    if words[0] == "tune":
        few = ["run.packets=1000", "run.warmup=500", "function.upf.load.ues=200", "function.upf.load.pdrs=4"]
        return [*words, "--evaluations", "4", *(x for s in few for x in ("--set", s))]
    if words[0] == "advise":
        # Of the techniques two, on a machine that is filled soon.
        few = ["machine.cores=1", "mempool.size=8192", "run.warmup=9000", "traffic.profile=min64", *MADE, *SHORT[2:]]
        without = [name for name, *_ in techniques._ALL if name not in ("short_rings", "core")]
        words = [*words, "--packets", "1000", *(x for name in without for x in ("--without", name))]
        return [*words, *(x for s in few for x in ("--set", s))]
    if words[:2] == ["router", "run"]:
        return [
            word.replace("--seconds", "--packets").replace("5", "500") if word in {"--seconds", "5"} else word
            for word in words
        ]
    return words


@functools.cache
def cluster() -> Any:
    """A cluster in this process, for pages that name one."""
    import distributed

    with warnings.catch_warnings(action="ignore"):
        return distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, protocol="tcp://", dashboard_address=None
        )


def end() -> None:
    """Ends the cluster, if there is one: its threads draw random numbers, which tests of properties do not like."""
    if cluster.cache_info().currsize:
        cluster().close()
        cluster.cache_clear()


def inputs(folder: Path) -> None:
    """The files that pages talk about."""
    frames = [frame(i) for i in range(300)]
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    records = [struct.pack("<IIII", 1, 10 * i, len(f), len(f)) + f for i, f in enumerate(frames)]
    capture = head + b"".join(records)
    for name in ("trace.pcap.gz", "mine.pcap.gz", "isp_nz_20100113.pcap.gz"):
        (folder / name).write_bytes(gzip.compress(capture))
    (folder / "examples").symlink_to(ROOT / "examples")
    rib = "".join(f"{10 + i % 90}.{i // 90}.0.0/16\n" for i in range(500)) + "0.0.0.0/0\n"
    for name in ("rib.mrt.gz", "rib.gz", "full_table_v4v6.txt.gz"):
        (folder / name).write_bytes(gzip.compress(rib.encode()))
    for name in ("my.toml", "my-scenario.toml"):
        (folder / name).write_text(
            wirespeed.preset("forwarding") if hasattr(wirespeed, "preset") else 'name = "mine"\n'
        )
    # What `wirespeed calibrate` would write is a preset of a machine.
    (folder / "mine.toml").write_text(_wirespeed.preset("machine", "xeon-gold-6140"))
    (folder / "study.toml").write_text('scenario = "forwarding"\n[vary]\ntraffic.load = [0.2, 0.4]\n')
    requests = "".join(f"R {i * 64:x}\n" for i in range(2000))
    for name in ("stream.rw", "my.rw"):
        (folder / name).write_text(requests)
    (folder / "loads.rw.gz").write_bytes(gzip.compress(requests.encode()))
    clocked = "".join(f"R {i * 64:x}\n" for i in range(2000)).encode()
    (folder / "stream.rw.zst").write_bytes(compressed(clocked))
    for name in ("before", "after"):
        wirespeed.run("forwarding", set={"run.packets": 1000, "run.curve": [], "function.forward.prefixes": 100}).write(
            folder / name
        )


def frame(i: int) -> bytes:
    """An IPv4 frame of 60 to 1000 bytes."""
    bytes_ = 60 + 40 * (i % 24)
    ip = struct.pack(
        "!BBHHHBBH4B4B", 0x45, 0, bytes_ - 14, i, 0, 64, 6, 0, 198, 51, 100, i % 250, 10 + i % 90, i % 5, 1, 1
    )
    total = sum(struct.unpack("!10H", ip))
    checksum = ~(total % 0xFFFF) & 0xFFFF
    ip = ip[:10] + struct.pack("!H", checksum) + ip[12:]
    return (b"\2" * 12 + b"\x08\x00" + ip).ljust(bytes_, b"x")


def compressed(data: bytes) -> bytes:
    """As zstd where there is one; gzip otherwise, which readers tell by its first bytes."""
    import pyarrow as pa

    return bytes(pa.Codec("zstd").compress(data)) if pa.Codec.is_available("zstd") else gzip.compress(data)
