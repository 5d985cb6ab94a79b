"""Runs every check and test of the project, all of them even when one fails, and sums up in one closing line.

`make test`, `make test-slow` and `make bench` call this. A check without tests of its own (formatting, types) counts as
one; a tool that is not installed counts as skipped and is named.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
BIN = Path(sys.executable).parent

NOT_RUN = (2, 77)
"""How a benchmark ends that lacks its peer."""
NO_TESTS = 5
"""How pytest ends when it finds no test."""


@dataclass
class Tally:
    """What came of a suite."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""


Judge = Callable[[int, str], Tally]


@dataclass(frozen=True)
class Suite:
    """A command, how its output is read, and what must be there for it to run."""

    name: str
    command: Sequence[str]
    judge: Judge
    needs: Sequence[str] = field(default_factory=tuple)
    beside: bool = False
    """Whether it takes one core and nothing that others build, so that it runs beside them."""


def one(code: int, output: str) -> Tally:
    """A check that holds or does not."""
    return Tally(passed=int(code == 0), failed=int(code != 0))


def cargo(code: int, output: str) -> Tally:
    """Sums the closing lines of the test programs; a build that fails counts as a failure."""
    tally = Tally()
    for line in re.finditer(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", output):
        passed, failed, ignored = map(int, line.groups())
        tally.passed += passed
        tally.failed += failed
        tally.skipped += ignored
    if code != 0 and tally.failed == 0:
        tally.failed, tally.note = 1, "does not build, or a test program died"
    return tally


def pytest(code: int, output: str) -> Tally:
    """Reads the closing line; errors count as failures."""
    ends = re.findall(r"^=+ (.*(?:passed|failed|error|skipped|no tests ran).*) in [\d.:]+", output, re.MULTILINE)
    counts = {word.rstrip("s"): int(n) for n, word in re.findall(r"(\d+) ([a-z]+)", ends[-1] if ends else "")}
    tally = Tally(
        passed=counts.get("passed", 0) + counts.get("xfailed", 0),
        failed=counts.get("failed", 0) + counts.get("error", 0) + counts.get("xpassed", 0),
        skipped=counts.get("skipped", 0),
    )
    if code not in (0, NO_TESTS) and tally.failed == 0:
        tally.failed, tally.note = 1, f"pytest ended with {code}"
    return tally


def benchmark(code: int, output: str) -> Tally:
    """A benchmark that lacks its peer is skipped."""
    if code in NOT_RUN:
        lines = output.strip().splitlines()
        return Tally(skipped=1, note=lines[-1] if lines else "")
    return one(code, output)


def tests() -> list[Suite]:
    """In order of how soon they say something."""
    py = ["python", "tests", "docs"]
    workspace = ["cargo", "test", "--workspace", "--locked", "--no-fail-fast"]
    return [
        Suite("house", ["pytest", "tests/house"], pytest, beside=True),
        Suite("cargo fmt", ["cargo", "fmt", "--all", "--check"], one, ["cargo-fmt"]),
        Suite("ruff", ["ruff", "check", *py], one, beside=True),
        Suite("ruff format", ["ruff", "format", "--check", *py], one, beside=True),
        Suite("mypy", ["mypy"], one, beside=True),
        Suite("stubtest", ["stubtest", "wirespeed._wirespeed"], one, beside=True),
        Suite("import-linter", ["lint-imports"], one, beside=True),
        # A minute on one core; its table is printed on every run.
        Suite("accuracy", ["python", "tests/house/accuracy.py"], one, beside=True),
        Suite("cargo deny", ["cargo", "deny", "--locked", "check", "bans", "licenses", "sources"], one, ["cargo-deny"]),
        Suite(
            "clippy",
            ["cargo", "clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"],
            one,
            ["cargo-clippy"],
        ),
        # Whatever has tests. Clippy has checked the examples and the extension: optimised, those of `functions` take as
        # long as a crate, and `--lib` would link the extension, which has no test, once more.
        Suite("cargo test", [*workspace, "--tests"], cargo),
        Suite("cargo doctest", [*workspace, "--doc"], cargo),
        # Files side by side: what a file sets up for its tests is set up once.
        Suite("pytest", ["pytest", "--numprocesses", "auto", "--dist", "loadfile"], pytest),
        # Pictures of short runs, too; warnings are errors.
        Suite("docs", ["env", "PICTURES=short", "mkdocs", "build", "--strict", "--quiet"], one, beside=True),
    ]


def slow_tests() -> list[Suite]:
    """Tests that are marked as taking long."""
    suites = [
        Suite(
            "cargo test, ignored ones",
            ["cargo", "test", "--workspace", "--release", "--locked", "--no-fail-fast", "--", "--ignored"],
            cargo,
        )
    ]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    if any(marker.startswith("slow") for marker in settings.get("markers", [])):
        suites.append(Suite("pytest, slow ones", ["pytest", "-m", "slow"], pytest))
    # `make test` runs on the profile of tests.
    suites.append(Suite("release wheel", ["bash", "tests/house/release.sh"], one))
    return suites


def benches() -> list[Suite]:
    """Every `benches/*/run.py`, with the packages its `requirements.txt` names."""
    suites = []
    for program in sorted(ROOT.glob("benches/*/run.py")):
        wants = program.with_name("requirements.txt")
        if wants.exists():
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
            subprocess.run([*pip, "-r", str(wants)], check=False)
        suites.append(Suite(f"bench {program.parent.name}", [sys.executable, str(program)], benchmark))
    return suites


def run(suite: Suite) -> Tally:
    """Runs a suite with its output both shown and read; shown at its end where it runs beside others."""
    missing = [tool for tool in suite.needs if shutil.which(tool) is None]
    if missing:
        return Tally(skipped=1, note=f"{', '.join(missing)} is not installed")
    title = f"\n--- {suite.name}: {' '.join(suite.command)}"
    if not suite.beside:
        print(title, flush=True)
    env = os.environ | {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(BIN.parent),
        "MYPYPATH": "python",
        "NO_MKDOCS_2_WARNING": "1",
    }
    started = time.monotonic()
    lines = []
    try:
        with subprocess.Popen(
            suite.command,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            for line in process.stdout or ():
                lines.append(line)
                if not suite.beside:
                    print(line, end="", flush=True)
        if suite.beside:
            print(f"{title}\n{''.join(lines)}", end="", flush=True)
        tally = suite.judge(process.returncode, "".join(lines))
    except OSError as e:
        tally = Tally(failed=1, note=f"{suite.command[0]}: {e.strerror}")
    tally.seconds = time.monotonic() - started
    return tally


def main() -> int:
    """Runs what the first argument names; 1 if anything failed."""
    suites = {"test": tests, "slow": slow_tests, "bench": benches}[sys.argv[1]]()
    with ThreadPoolExecutor(1) as pool:
        beside = {suite.name: pool.submit(run, suite) for suite in suites if suite.beside}
        others = {suite.name: run(suite) for suite in suites if not suite.beside}
    tallies = [(suite.name, others.get(suite.name) or beside[suite.name].result()) for suite in suites]

    print(f"\n{'suite':26}{'passed':>8}{'failed':>8}{'skipped':>8}{'seconds':>9}")
    for name, t in tallies:
        print(f"{name:26}{t.passed:8}{t.failed:8}{t.skipped:8}{t.seconds:9.1f}{'  ' if t.note else ''}{t.note}")
    if not SHARED.is_dir():
        print(f"\n{os.path.relpath(SHARED, ROOT)} is not there: tests on real captures and tables say so and pass")
    total = Tally(*(sum(getattr(t, part) for _, t in tallies) for part in ("passed", "failed", "skipped")))
    print(f"\n{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return int(total.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
