"""What stands between cargo and rustc while tests are built."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import rust

WRAPPER = rust.ROOT / "tests" / "house" / "rustc.sh"
APART = ("traffic", "traffic")
"""The room and program of tests that is optimised without inlining from part to part."""
NAMED = [named for named in re.findall(r"wirespeed-(\w+)/(\w+)", WRAPPER.read_text()) if named != APART]
"""Rooms, and programs of their tests."""


def called(room: str, *arguments: str) -> list[str]:
    """What rustc would be called with."""
    command = [WRAPPER, "printf", r"%s\n", *arguments]
    environment = {**os.environ, "CARGO_PKG_NAME": f"wirespeed-{room}"}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.splitlines()


@pytest.mark.parametrize(("room", "program"), NAMED)
def test_tests_that_it_names_are_not_optimised(room: str, program: str) -> None:
    given = ["--crate-name", program, "--edition=2024", "-C", "opt-level=2", "--test", "--cfg", 'feature="a b"']
    assert called(room, *given) == [*given, "-C", "opt-level=0"]
    root = "tests/suite/main.rs" if program == "suite" else "src/lib.rs"
    assert (rust.rooms()[room].folder / root).exists()
    assert program in ("suite", room)


def test_one_is_optimised_in_parts() -> None:
    room, program = APART
    given = ["--crate-name", program, "--edition=2024", "-C", "opt-level=2", "--test"]
    assert called(room, *given) == [*given, "-C", "lto=off"]
    assert called(room, *given[:-1]) == given[:-1]


@pytest.mark.parametrize(
    ("room", "given"),
    [
        ("sim", ["--crate-name", "sim", "--crate-type", "lib", "--check-cfg", "cfg(docsrs,test)"]),
        ("router", ["--crate-name", "suite", "-C", "opt-level=2", "--test"]),
        ("machine", ["--crate-name", "machine", "-C", "opt-level=2", "--test"]),
        ("sim", ["-vV"]),
    ],
)
def test_whatever_else_is_compiled_is_compiled_as_it_is_said(room: str, given: list[str]) -> None:
    assert NAMED
    assert called(room, *given) == given


def test_make_test_builds_and_tests_with_it() -> None:
    makefile = (rust.ROOT / "Makefile").read_text()
    assert (
        f"\ntest test-build: export RUSTC_WORKSPACE_WRAPPER := $(abspath {WRAPPER.relative_to(rust.ROOT)})\n"
        in makefile
    )


def untested(folder: Path) -> list[Path]:
    """The sources of a crate whose tests cargo does not build: `test = false`."""
    manifest = tomllib.loads((folder / "Cargo.toml").read_text())
    found = [] if manifest.get("lib", {}).get("test", True) else sorted((folder / "src").rglob("*.rs"))
    return found + [folder / bin["path"] for bin in manifest.get("bin", []) if not bin.get("test", True)]


@pytest.mark.parametrize("room", rust.rooms().values(), ids=lambda room: room.name)
def test_what_cargo_does_not_test_has_no_tests(room: rust.Room) -> None:
    for path in untested(room.folder):
        assert not re.search(r"#\[(cfg\()?test\b|proptest!", path.read_text()), f"{path}: its tests would never run"


def test_untested_sources_are_found() -> None:
    paths = [path for room in rust.rooms().values() for path in untested(room.folder)]
    files = {path.relative_to(rust.ROOT / "crates").as_posix() for path in paths}
    assert {"py/src/lib.rs", "web/src/lib.rs", "daemon/src/main.rs"} <= files
    assert "sim/src/lib.rs" not in files
