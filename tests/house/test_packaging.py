"""What is shipped: the list of what is linked, citation, and the sources as pip gets them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import licences
import pytest

import wirespeed

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo")
def test_the_list_of_what_is_linked_is_not_stale() -> None:
    assert licences.TABLE.read_text() == licences.table(), "THIRD-PARTY.md is stale: run `make licences`"


def test_every_licence_of_the_list_may_be_linked() -> None:
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
    rows = re.findall(r"^\| \S+ \| \d\S* \| (.+) \|$", licences.TABLE.read_text(), re.MULTILINE)
    assert len(rows) > 50
    for expression in rows:
        # Of each part that has to hold, one choice.
        for part in re.split(r" AND ", expression):
            choices = [choice.strip(" ()") for choice in re.split(r" OR |/", part)]
            assert allowed & set(choices), f"{expression}: none of it is in deny.toml"


def test_citation_and_package_have_one_version() -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    cited = dict(re.findall(r"^(\S+): (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert cited["version"] == workspace["version"]
    assert cited["license"] == workspace["license"]
    # An installed package cites itself, and has no root of the repository.
    carried = ROOT / "python" / "wirespeed" / "CITATION.cff"
    assert carried.read_text() == (ROOT / "CITATION.cff").read_text(), "cp CITATION.cff python/wirespeed/"
    assert (ROOT / "LICENSE").read_text().split()[:2] == ["Apache", "License"]


@pytest.mark.skipif(shutil.which("maturin") is None or shutil.which("cargo") is None, reason="no maturin or cargo")
def test_the_source_distribution_has_all_that_its_crates_read(tmp_path: Path) -> None:
    subprocess.run(["maturin", "sdist", "--out", tmp_path], cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "at", filter="data")
    (root,) = (tmp_path / "at").iterdir()
    for source in root.glob("crates/*/src/**/*.rs"):
        text = source.read_text(encoding="utf-8")
        for name in re.findall(r'include_(?:str|bytes)!\(\s*"([^"]+)"', text):
            assert (source.parent / name).exists(), f"{source.relative_to(root)} includes {name}"
    kept = {path.relative_to(ROOT / "presets") for path in (ROOT / "presets").rglob("*.toml")}
    assert kept == {path.relative_to(root / "presets") for path in (root / "presets").rglob("*.toml")}
    rooms = {path.name for path in (ROOT / "papers").iterdir() if path.is_dir()}
    assert rooms == {path.name for path in (root / "papers").iterdir() if path.is_dir()}
    for name in ("packaging/backend.py", "crates/daemon/src/main.rs", "crates/fakehost/Cargo.toml"):
        assert (root / name).exists(), f"pip cannot build wirespeedd: the source distribution lacks {name}"
    for name in ("python/wirespeed/include/wirespeed_probe.h", "Cargo.lock", "LICENSE", "THIRD-PARTY.md", "README.md"):
        assert (root / name).exists(), f"the source distribution lacks {name}"
    # Cargo finds every crate that the extension needs; pip does not ask for the very list of Cargo.lock.
    subprocess.run(
        ["cargo", "metadata", "--offline", "--format-version", "1"], cwd=root, check=True, capture_output=True
    )


@pytest.mark.skipif(find_spec("maturin") is None, reason="no maturin")
def test_what_pip_builds_has_wirespeedd_beside_the_extension(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "packaging"))
    import backend

    script, folder = tmp_path / "wirespeedd", tmp_path / "w-1.0"
    (folder / "w-1.0.dist-info").mkdir(parents=True)
    (folder / "w-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: w\nVersion: 1.0\n")
    about = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    (folder / "w-1.0.dist-info" / "WHEEL").write_text(about)
    subprocess.run([sys.executable, "-m", "wheel", "pack", "--dest-dir", tmp_path, folder], check=True, cwd=ROOT)
    wheel = tmp_path / "w-1.0-py3-none-any.whl"
    script.write_bytes(b"#!/bin/sh\n")
    backend.add(wheel, script)
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("w-1.0.data/scripts/wirespeedd") == b"#!/bin/sh\n"
        assert archive.getinfo("w-1.0.data/scripts/wirespeedd").external_attr >> 16 & 0o111
        assert "w-1.0.data/scripts/wirespeedd,sha256=" in archive.read("w-1.0.dist-info/RECORD").decode()


@pytest.mark.skipif(shutil.which("maturin") is None or shutil.which("cargo") is None, reason="no maturin or cargo")
def test_a_wheel_is_tagged_for_every_python_from_3_11_on(tmp_path: Path) -> None:
    # What a wheel would be called, without building one.
    command = ["maturin", "pep517", "write-dist-info", "--metadata-directory", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (about,) = tmp_path.glob("*.dist-info")
    tag = re.search(r"^Tag: (\S+)$", (about / "WHEEL").read_text(), re.MULTILINE)
    assert tag is not None
    assert tag[1].startswith("cp311-abi3-linux_")
    assert "Requires-Python: >=3.11\n" in (about / "METADATA").read_text()
    assert "wirespeed=wirespeed.cli:main" in (about / "entry_points.txt").read_text().replace(" ", "")


@pytest.mark.skipif(shutil.which("objdump") is None or sys.platform != "linux", reason="no objdump")
def test_the_extension_wants_no_newer_c_library_than_is_said() -> None:
    """A wheel of this machine may be tagged with what CONTRIBUTING.md says only while that is all it uses."""
    said = re.search(r"wants glibc (\d+)\.(\d+)", (ROOT / "CONTRIBUTING.md").read_text())
    assert said is not None
    extension = Path(wirespeed._wirespeed.__file__)
    assert ".abi3." in extension.name
    symbols = subprocess.run(["objdump", "-T", extension], check=True, capture_output=True, text=True).stdout
    wanted = {(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)}
    assert wanted
    assert max(wanted) <= (int(said[1]), int(said[2]))


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("wirespeed swe", "sweep"), ("wirespeed sweep --va", "--vary")],
)
def test_a_shell_completes_commands_and_options(typed: str, offered: str) -> None:
    words = typed.split()
    asked = {"_WIRESPEED_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    assert offered in completed(asked).splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_what_a_shell_installs_calls_the_command(shell: str) -> None:
    script = completed({"_WIRESPEED_COMPLETE": f"source_{shell}"})
    assert f"complete_{shell}" in script
    assert "wirespeed" in script
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script, check=True, capture_output=True, text=True)


def completed(asked: dict[str, str]) -> str:
    """What the command answers a shell that asks by its environment."""
    program = [sys.executable, "-c", "import sys; sys.argv = ['wirespeed']; from wirespeed.cli import main; main()"]
    return subprocess.run(program, env=os.environ | asked, capture_output=True, text=True).stdout
