"""Walks the list of what a release has to be: `make release-check`.

python packaging/release.py check [--only WORD ...]   # judges; 0 all hold, 1 one fails, 3 one was not judged
python packaging/release.py sums                      # writes dist/SHA256SUMS

Nothing is published and nothing is tagged. A check whose tool is not installed is *not judged*, and says what it wants:
a release wants all of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PACKAGING = ROOT / "packaging"
BIN = Path(sys.executable).parent
SUMS = "SHA256SUMS"
SECONDS = 30
"""From an empty environment to the demo's report, and from the package to metrics."""
LONGEST_S = 3600.0
"""What a tool may take; one that takes longer hangs."""
PARTS = ("Reporting", "Threat model", "Who may send what to whom", "What is not promised")
"""Sections that SECURITY.md has to have."""


class NotJudgedError(Exception):
    """A check that cannot be made here: what it wants."""


class DoesNotHoldError(Exception):
    """A check that does not hold: what is wrong, and what to do."""


@dataclass(frozen=True)
class Check:
    """A line of the list: what has to hold, and how that is found out."""

    words: str
    judge: Callable[[], str]


def main() -> int:
    """Does what the command line says; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("check", "sums"))
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="checks that have one of these words")
    given = parser.parse_args()
    if given.what == "sums":
        print(sums())
        return 0
    return walk([each for each in CHECKS if not given.only or any(word in each.words for word in given.only)])


def walk(checks: list[Check]) -> int:
    """Makes checks, one a line; returns the exit code."""
    counts = {"holds": 0, "fails": 0, "not judged": 0}
    for check in checks:
        start = time.monotonic()
        try:
            outcome, words = "holds", check.judge()
        except NotJudgedError as e:
            outcome, words = "not judged", str(e)
        except DoesNotHoldError as e:
            outcome, words = "fails", str(e)
        counts[outcome] += 1
        print(f"{outcome:>10}  {check.words}: {words} ({time.monotonic() - start:.1f} s)", flush=True)
    print(f"\n{counts['holds']} hold, {counts['fails']} fail, {counts['not judged']} were not judged")
    return 1 if counts["fails"] else 3 if counts["not judged"] else 0


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None, quiet: bool = False) -> str:
    """Runs a tool; returns what it printed. `quiet`: what it says at all is a fault.

    Raises NotJudgedError where it is not installed, and DoesNotHoldError where it fails or does not end.
    """
    name = str(command[0])
    found = shutil.which(name) or shutil.which(name, path=str(BIN))
    if found is None:
        raise NotJudgedError(f"wants {name}")
    words = [found, *map(str, command[1:])]
    pipe, joined = subprocess.PIPE, subprocess.STDOUT
    try:
        done = subprocess.run(words, cwd=cwd, env=env, stdout=pipe, stderr=joined, text=True, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        line = shlex.join([name, *words[1:]])[:200]
        raise DoesNotHoldError(f"{name}: has not ended after {LONGEST_S:g} s: run `{line}` by itself") from None
    printed = done.stdout.strip()
    if done.returncode != 0 or (quiet and printed):
        raise DoesNotHoldError(f"{name}: {printed[-600:] or f'exit code {done.returncode}'}")
    return printed


def version() -> str:
    """The version of the sources."""
    return str(tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"])


def made(pattern: str) -> Path:
    """The one file of this version in dist/. Raises DoesNotHoldError where there is none, or several."""
    found = sorted(DIST.glob(pattern))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "nothing"
        raise DoesNotHoldError(
            f"dist/ has {names} like {pattern}: one is wanted (empty dist/, then make release-check)"
        )
    return found[0]


def sums() -> Path:
    """Writes the checksums of all that is in dist/, as sha256sum reads them."""
    files = sorted(path for path in DIST.iterdir() if path.is_file() and path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (DIST / SUMS).write_text("".join(lines), encoding="utf-8")
    return DIST / SUMS


# --- the list ---------------------------------------------------------------------------------------------------------


def tree_is_clean() -> str:
    """Whether what is built is what is committed."""
    changed = run("git", "status", "--porcelain")
    if changed:
        raise DoesNotHoldError(f"not committed: {', '.join(changed.split()[1::2][:5])}")
    return run("git", "rev-parse", "--short", "HEAD")


def versions_agree() -> str:
    """Whether Cargo.toml, CITATION.cff and CHANGELOG.md say one version."""
    said = {"CITATION.cff": re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)}
    said["CHANGELOG.md"] = re.findall(r"^## \[(\d\S*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[:1]
    wrong = [f"{name} says {', '.join(found) or 'none'}" for name, found in said.items() if found != [version()]]
    if wrong:
        raise DoesNotHoldError(f"Cargo.toml says {version()}, {'; '.join(wrong)}")
    return version()


def changelog_is_settled() -> str:
    """Whether nothing is left under Unreleased."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    left = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    entries = left[1].count("\n- ") if left else 0
    if entries:
        raise DoesNotHoldError(f"{entries} entries are under Unreleased: give them the version and its date")
    return "nothing is under Unreleased"


def licences_are_listed() -> str:
    """Whether THIRD-PARTY.md is what is linked."""
    if shutil.which("cargo") is None:
        raise NotJudgedError("wants cargo")
    sys.path.insert(0, str(ROOT / "tests" / "house"))
    import licences

    if licences.TABLE.read_text() != licences.table():
        raise DoesNotHoldError("THIRD-PARTY.md is stale: run `make licences`")
    return f"{licences.table().count(chr(10) + '|') - 2} crates"


def security_has_its_parts() -> str:
    """Whether SECURITY.md has all that a reader looks for."""
    found = re.findall(r"^## (.+)$", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.MULTILINE)
    missing = [part for part in PARTS if part not in found]
    if missing:
        raise DoesNotHoldError(f"SECURITY.md lacks {', '.join(missing)}")
    return f"{len(found)} sections"


def wheel_has_its_parts() -> str:
    """Whether the wheel carries extension, daemon, licences and schema of its version."""
    wheel = made(f"wirespeed-{version()}-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        bad = packed.testzip()
        names = packed.namelist()
    wanted = ("wirespeed/_wirespeed", "scripts/wirespeedd", "licenses/LICENSE", "THIRD-PARTY-LICENSES.txt")
    missing = [part for part in wanted if not any(part in name for name in names)]
    if bad or missing:
        raise DoesNotHoldError(f"{wheel.name}: {'damaged: ' + bad if bad else 'lacks ' + ', '.join(missing)}")
    return f"{wheel.name}, {wheel.stat().st_size / 1e6:.0f} MB"


def wheel_runs_from_nothing() -> str:
    """Whether an empty environment without Rust comes to the demo's report in time."""
    wheel = made(f"wirespeed-{version()}-*.whl")
    with tempfile.TemporaryDirectory() as at:
        env = {"PATH": "/usr/bin:/bin", "HOME": at, "LANG": "C.UTF-8"}
        env |= {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "HTTPS_"))}
        start = time.monotonic()
        run(sys.executable, "-m", "venv", "venv", cwd=Path(at), env=env)
        pip = (Path(at) / "venv/bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install", wheel)
        run(*pip, cwd=Path(at), env=env)
        installed = time.monotonic() - start
        run(Path(at) / "venv/bin/wirespeed", "demo", "--out", "demo", cwd=Path(at), env=env)
        took = time.monotonic() - start
        summary = json.loads((Path(at) / "demo/summary.json").read_text(encoding="utf-8"))
        if not (Path(at) / "demo/report.html").stat().st_size or summary["carried_mpps"] <= 0:
            raise DoesNotHoldError("the demo's report is empty")
    if took > SECONDS:
        raise DoesNotHoldError(f"{took:.1f} s, {installed:.1f} of them to install: {SECONDS} are allowed")
    return f"{took:.1f} s, {installed:.1f} of them to install"


def sources_are_packed() -> str:
    """Whether there are sources of this version."""
    found = made(f"wirespeed-{version()}.tar.gz")
    return f"{found.name}, {found.stat().st_size / 1e6:.1f} MB"


def deb_is_clean() -> str:
    """Whether Debian's linter finds nothing."""
    package = made(f"wirespeedd_{version()}-*.deb")
    run("dpkg-deb", "--info", package)
    run("lintian", "--allow-root", "--fail-on", "error,warning", package)
    return f"{package.name}, {package.stat().st_size / 1e6:.1f} MB"


def daemon_runs_from_its_package() -> str:
    """Whether what the package has comes to metrics in time, on the daemon's simulated machine."""
    package = made(f"wirespeedd_{version()}-*.deb")
    with tempfile.TemporaryDirectory() as at, socket.socket() as free:
        start = time.monotonic()
        run("dpkg-deb", "-x", package, at)
        program = Path(at) / "usr/bin/wirespeedd"
        if "--simulate" not in run(program, "--help"):
            raise NotJudgedError("wants a daemon that has --simulate")
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        free.close()
        example = (Path(at) / "usr/share/doc/wirespeedd/examples/wirespeedd.toml").read_text(encoding="utf-8")
        (Path(at) / "wirespeedd.toml").write_text(f'listen = "{address}"\n{example}', encoding="utf-8")
        with subprocess.Popen(
            [program, "--simulate", "skylake", "--config", Path(at) / "wirespeedd.toml"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as daemon:
            try:
                while not re.search(r"^wirespeedd_received_pps [1-9]", _metrics(address), re.MULTILINE):
                    took = time.monotonic() - start
                    if daemon.poll() is not None or took > SECONDS:
                        how = f"it ended with {daemon.returncode}" if daemon.returncode is not None else "no metrics"
                        raise DoesNotHoldError(f"{how} after {took:.1f} s: {SECONDS} are allowed")
                    time.sleep(0.1)
            finally:
                daemon.terminate()
        return f"{time.monotonic() - start:.1f} s to metrics of packets"


def _metrics(address: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=2) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def unit_is_sound() -> str:
    """Whether systemd finds nothing in the unit, with the program where the package has it."""
    package = made(f"wirespeedd_{version()}-*.deb")
    with tempfile.TemporaryDirectory() as at:
        run("dpkg-deb", "-x", package, at)
        unit = Path(at) / "wirespeedd.service"
        text = (Path(at) / "lib/systemd/system/wirespeedd.service").read_text(encoding="utf-8")
        unit.write_text(text.replace("/usr/bin/wirespeedd", f"{at}/usr/bin/wirespeedd"), encoding="utf-8")
        run("systemd-analyze", "verify", unit, quiet=True)
    return "systemd-analyze verify"


def pages_are_sound() -> str:
    """Whether groff finds nothing in the manual pages."""
    package = made(f"wirespeedd_{version()}-*.deb")
    with tempfile.TemporaryDirectory() as at:
        run("dpkg-deb", "-x", package, at)
        pages = sorted(Path(at).glob("usr/share/man/*/*.gz"))
        for page in pages:
            run("gzip", "-d", page)
            run("groff", "-man", "-Tutf8", "-ww", "-z", page.with_suffix(""), quiet=True)
    if len(pages) != 2:
        raise DoesNotHoldError(f"{len(pages)} manual pages: 2 are wanted")
    return "2 pages"


def alerts_fire() -> str:
    """Whether alerts are sound, and fire when they should and not before."""
    folder = PACKAGING / "monitoring"
    run("promtool", "check", "rules", "alerts.yml", cwd=folder)
    run("promtool", "test", "rules", "alerts.test.yml", cwd=folder)
    return "promtool check, promtool test"


def action_is_sound() -> str:
    """Whether the action is one, and its script has no fault that shellcheck knows."""
    run("check-jsonschema", "--builtin-schema", "vendor.github-actions", PACKAGING / "action" / "action.yml")
    run("shellcheck", PACKAGING / "action" / "gate.sh")
    return "check-jsonschema, shellcheck"


def image_is_sound() -> str:
    """Whether hadolint finds nothing in the image's file."""
    run("hadolint", PACKAGING / "image" / "Containerfile")
    return "hadolint"


def bill_is_valid() -> str:
    """Whether the bill of materials is CycloneDX, strictly."""
    bill = made("wirespeed.cdx.json")
    try:
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator
    except ImportError:
        raise NotJudgedError("wants cyclonedx-python-lib[json-validation]") from None
    text = bill.read_text(encoding="utf-8")
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if fault is not None:
        raise DoesNotHoldError(f"{bill.name}: {fault}"[:600])
    found = json.loads(text)
    if found["metadata"]["component"]["version"] != version():
        raise DoesNotHoldError(f"{bill.name}: is of version {found['metadata']['component']['version']}")
    return f"{len(found['components'])} components"


def sums_agree() -> str:
    """Whether dist/ is what its checksums say, all of it."""
    if not (DIST / SUMS).exists():
        raise DoesNotHoldError(f"dist/{SUMS} is missing: run `python packaging/release.py sums`")
    run("sha256sum", "--check", "--strict", SUMS, cwd=DIST)
    listed = {line.split()[1] for line in (DIST / SUMS).read_text().splitlines()}
    others = sorted(path.name for path in DIST.iterdir() if path.is_file() and path.name not in {*listed, SUMS})
    if others:
        raise DoesNotHoldError(f"not listed: {', '.join(others)}")
    return f"{len(listed)} files"


def tests_pass() -> str:
    """Whether all tests pass."""
    return run("make", "--silent", "test").splitlines()[-1]


CHECKS = [
    Check("the tree is clean", tree_is_clean),
    Check("versions agree", versions_agree),
    Check("the changelog is settled", changelog_is_settled),
    Check("licences are listed", licences_are_listed),
    Check("SECURITY.md has its parts", security_has_its_parts),
    Check("the wheel has its parts", wheel_has_its_parts),
    Check("the wheel runs from nothing", wheel_runs_from_nothing),
    Check("the sources are packed", sources_are_packed),
    Check("the deb is clean", deb_is_clean),
    Check("the daemon runs from its package", daemon_runs_from_its_package),
    Check("the unit is sound", unit_is_sound),
    Check("manual pages are sound", pages_are_sound),
    Check("alerts fire", alerts_fire),
    Check("the action is sound", action_is_sound),
    Check("the image's file is sound", image_is_sound),
    Check("the bill of materials is valid", bill_is_valid),
    Check("checksums agree", sums_agree),
    Check("tests pass", tests_pass),
]


if __name__ == "__main__":
    sys.exit(main())
