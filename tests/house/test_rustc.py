"""What stands between cargo and rustc while tests are built."""

from __future__ import annotations

import re
import subprocess

import pytest
import rust

WRAPPER = rust.ROOT / "tests" / "house" / "rustc.sh"
NAMED = re.findall(r"--crate-name (\w+) ", WRAPPER.read_text())


def called(*arguments: str) -> list[str]:
    """What rustc would be called with."""
    command = [WRAPPER, "printf", r"%s\n", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize("crate", NAMED)
def test_unit_tests_of_crates_that_it_names_are_not_optimised(crate: str) -> None:
    given = ["--crate-name", crate, "--edition=2024", "-C", "opt-level=2", "--test", "--cfg", 'feature="a b"']
    assert called(*given) == [*given, "-C", "opt-level=0"]
    assert (rust.rooms()[crate].folder / "src" / "lib.rs").exists()


@pytest.mark.parametrize(
    "given",
    [
        ["--crate-name", "sim", "--crate-type", "lib", "--check-cfg", "cfg(docsrs,test)"],
        ["--crate-name", "suite", "-C", "opt-level=2", "--test"],
        ["--crate-name", "simt", "--test"],
        ["-vV"],
    ],
)
def test_whatever_else_is_compiled_is_compiled_as_it_is_said(given: list[str]) -> None:
    assert NAMED
    assert called(*given) == given


def test_make_test_builds_and_tests_with_it() -> None:
    makefile = (rust.ROOT / "Makefile").read_text()
    assert f"\ntest: export RUSTC_WORKSPACE_WRAPPER := $(abspath {WRAPPER.relative_to(rust.ROOT)})\n" in makefile
