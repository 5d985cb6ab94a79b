"""Programs that record themselves, from their C source to a report."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import wirespeed
from wirespeed import cli, recording
from wirespeed.errors import InputError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HEADER = recording.INCLUDE / "wirespeed_probe.h"
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc)")
USE = """
#include "wirespeed_probe.h"
int used(int *x);
int used(int *x)
{
    WIRESPEED_REGION_SHARED("x", x, sizeof *x);
    WIRESPEED_BEGIN_MBUF(x, 4, x);
    WIRESPEED_LOAD(x, 4);
    WIRESPEED_LOAD_AFTER(x, 4, 1);
    WIRESPEED_COPY(x, x, 4);
    WIRESPEED_WORK(3);
    WIRESPEED_DROP();
    return *x;
}
"""


def built(example: str, tmp_path: Path, *targets: str) -> Path:
    folder = tmp_path / example
    shutil.copytree(EXAMPLES / example, folder, ignore=shutil.ignore_patterns("*.o", "*.probe", "*.gz", "out", "*-*"))
    for kept in ("scenario.toml", "Makefile"):
        assert (folder / kept).exists()
    done = subprocess.run(
        ["make", "-s", "-C", folder, f"PROBE={recording.INCLUDE}", "PACKETS=300", "CFLAGS=-O2 -Wall -Wextra -Werror",
         *targets],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def places(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {place["name"]: place for place in found["places"]}


@needs_compiler
@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("probe", ["", "-DWIRESPEED_PROBE", "-DWIRESPEED_PROBE_MARKS"])
@pytest.mark.parametrize("implementation", [False, True])
def test_the_header_is_clean_c99_and_c11_plus_plus(
    language: str, probe: str, implementation: bool, tmp_path: Path
) -> None:
    if language == "c++" and shutil.which("c++") is None:
        pytest.skip("no C++ compiler (c++)")
    source = tmp_path / "use.c"
    source.write_text(("#define WIRESPEED_PROBE_IMPLEMENTATION\n" if implementation else "") + USE)
    standard = ["-std=c99", "-D_POSIX_C_SOURCE=200809L"] if language == "c" else ["-std=c++11"]
    compiler = "cc" if language == "c" else "c++"
    flags = [
        "-pedantic",
        "-Wall",
        "-Wextra",
        "-Wshadow",
        "-Werror",
        "-fsyntax-only",
        f"-I{HEADER.parent}",
        "-x",
        language,
    ]
    done = subprocess.run([compiler, *standard, *flags, *probe.split(), source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_compiler
def test_without_a_probe_nothing_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "use.c").write_text(USE)
    (tmp_path / "plain.c").write_text("int used(int *x);\nint used(int *x)\n{\n    return *x;\n}\n")
    for name in ("use", "plain"):
        subprocess.run(
            ["cc", "-O2", f"-I{HEADER.parent}", "-S", "-o", tmp_path / f"{name}.s", tmp_path / f"{name}.c"], check=True
        )
    code = [
        [line for line in (tmp_path / f"{name}.s").read_text().splitlines() if ".file" not in line]
        for name in ("use", "plain")
    ]
    assert code[0] == code[1]


@needs_compiler
def test_a_program_is_recorded_by_hand_and_by_its_compiler_and_simulated(tmp_path: Path) -> None:
    folder = built("router", tmp_path, "by-hand.probe", "by-compiler.probe")
    by_hand, by_compiler = (recording.describe(folder / f"{way}.probe") for way in ("by-hand", "by-compiler"))
    for found in (by_hand, by_compiler):
        assert (found["packets"], found["mean_bytes"]) == (300, 60)
        assert {"tbl24", "tbl8", "counters"} <= set(places(found))
        # Every packet that is not dropped for its header looks once into the first table.
        assert places(found)["tbl24"]["references"] == 300
        assert 0 < found["dropped"] < 20
    assert by_hand["dropped"] == by_compiler["dropped"]
    assert by_hand["dependent"] > 300
    result = wirespeed.run(folder / "scenario.toml", set={"run.packets": 3000, "run.curve": []})
    summary = result.summary
    assert summary["loss"] == 0
    assert 0 < summary["drops"]["recorded"] < 300
    assert any("300 recorded packets of by-hand.probe" in note for note in summary["notes"])


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind")
@needs_compiler
def test_valgrind_sees_the_marked_packets_and_their_instructions(tmp_path: Path) -> None:
    folder = built("router", tmp_path, "by-hand.probe", "by-valgrind.lackey.gz")
    seen, named = recording.describe(folder / "by-valgrind.lackey.gz"), recording.describe(folder / "by-hand.probe")
    assert (seen["packets"], seen["dropped"]) == (named["packets"], named["dropped"])
    for table in ("tbl24", "tbl8"):
        assert places(seen)[table]["references"] == places(named)[table]["references"]
        # A region begins with the line that its first byte is on.
        assert abs(places(seen)[table]["bytes"] - places(named)[table]["bytes"]) < 64
    # What is written by eye beside the source is about what valgrind counts.
    assert seen["instructions"] == pytest.approx(named["instructions"], rel=0.5)
    assert seen["outside"] > 1000


@pytest.mark.skipif(
    shutil.which("pkg-config") is None or subprocess.run(["pkg-config", "--exists", "libdpdk"]).returncode != 0,
    reason="no DPDK to compile with (Debian: libdpdk-dev, pkg-config)",
)
@needs_compiler
def test_a_dpdk_program_is_recorded_and_simulated(tmp_path: Path) -> None:
    folder = built("dpdk", tmp_path)
    found = recording.describe(folder / "forward.probe")
    assert found["packets"] >= 300
    lpm = places(found)["tbl24"]
    assert lpm["references"] == found["packets"]
    assert lpm["bytes"] == 4 << 24
    assert places(found)["mbuf"]["references"] >= found["packets"]
    result = wirespeed.run(folder / "scenario.toml", set={"run.packets": 3000, "run.curve": []})
    assert result.summary["loss"] == 0
    # A dependent chain is never faster than references that may overlap.
    chained = wirespeed.run(
        folder / "scenario.toml", set={"run.packets": 3000, "run.curve": [], "function.trace.dependence": "chained"}
    )
    assert chained.summary["sojourn_ns"]["mean"] > result.summary["sojourn_ns"]["mean"]


def test_a_recording_stands_in_a_chain_and_under_techniques(tmp_path: Path) -> None:
    file = tmp_path / "mine.probe"
    packet = "B 64 10100 10000\nL 1010c 4\nL 500000 8\nS 500040 8\nC 10100 600000 64\nE forward\n"
    file.write_text("wirespeed-probe 1\nR core 600000 65536 guest\n" + packet * 3)
    base = {"run.packets": 2000, "run.curve": [], "function.trace.file": str(file), "function.forward.prefixes": 100}
    alone = {"function.kind": "trace"}
    for settings in (
        alone,
        {"function.kind": "chain", "function.chain": ["check", "trace", "lookup"]},
        alone | {"buffer.allocation": "piecewise", "machine.llc.slices": 36},
        alone | {"machine.copy_table": {}, "policy.kind": "allocator", "policy.others": 0},
        alone | {"machine.cores": 2, "function.trace.pick": "by_length", "function.trace.skip": 1},
    ):
        assert wirespeed.run("forwarding", set=base | settings).summary["carried_mpps"] > 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "function.trace.file: a recording is wanted"),
        ({"function.trace.file": "nowhere.probe"}, "nowhere.probe: cannot be read"),
        ({"function.trace.file": "bad.probe"}, "bad.probe:3: `E sent`: expected `R shared|core BASE"),
        ({"function.trace.file": "good.probe", "function.trace.skip": 9}, "function.trace.skip = all packets"),
        (
            {"function.trace.file": "good.probe", "function.trace.instructions_per_reference": 0.5},
            "function.trace.instructions_per_reference: 0.5: allowed are 1 to 1000",
        ),
        ({"function.trace.file": "good.probe", "function.trace.pick": "random"}, "function.trace.pick"),
    ],
)
def test_what_is_wrong_is_named(
    settings: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.probe").write_text("wirespeed-probe 1\nB 60 100\nE sent\n")
    Path("good.probe").write_text("wirespeed-probe 1\nB 60 100\nE forward\n")
    with pytest.raises(InputError) as error:
        wirespeed.run("forwarding", set={"function.kind": "trace", "run.packets": 1000} | settings)
    assert said in str(error.value)


@needs_compiler
def test_a_recording_that_cannot_be_written_is_said_and_the_program_goes_on(tmp_path: Path) -> None:
    folder = built("router", tmp_path, "router-by-hand")
    env = os.environ | {"WIRESPEED_PROBE_FILE": str(tmp_path / "no" / "such" / "folder")}
    done = subprocess.run([folder / "router-by-hand", "10"], capture_output=True, text=True, env=env)
    assert done.returncode == 0
    assert "cannot be written: nothing is recorded (set WIRESPEED_PROBE_FILE)" in done.stderr
    few = os.environ | {
        "WIRESPEED_PROBE_FILE": str(tmp_path / "few"),
        "WIRESPEED_PROBE_PACKETS": "4",
        "WIRESPEED_PROBE_SKIP": "2",
    }
    subprocess.run([folder / "router-by-hand", "10"], check=True, capture_output=True, env=few)
    assert recording.describe(tmp_path / "few")["packets"] == 4


def test_the_command_shows_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> object:
        return cli.app(args=["recording", *words], prog_name="wirespeed", standalone_mode=False)

    file = tmp_path / "one.probe"
    file.write_text(
        "wirespeed-probe 1\nR shared 1000 128 table\nB 60 100\nW 7\nL 1000 8\nE forward\nB 60 100\nE drop\n"
    )
    assert run("show", str(file)) == 0
    said = capsys.readouterr().out
    assert "2 packets of 60 B in the mean (probe), 1 dropped" in said
    assert "table" in said
    assert run("show", str(file), "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["instructions"] == 7
    assert run("include") == 0
    assert Path(capsys.readouterr().out.strip(), "wirespeed_probe.h").exists()
