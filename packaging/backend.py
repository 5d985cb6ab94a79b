"""What pip calls to build from the sources: maturin's wheel, with `wirespeedd` beside the extension.

The daemon is a program of its own that never links the simulator, so the extension cannot carry it, and maturin builds
one crate a wheel.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import maturin
from maturin import (  # noqa: F401  what pip asks for besides wheels is maturin's
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_wheel,
)

Settings = dict[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """What has to be there before a wheel is built."""
    return [*maturin.get_requires_for_build_wheel(config_settings), "wheel>=0.45"]


def build_wheel(directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Builds the wheel into `directory` and returns its name."""
    name: str = maturin.build_wheel(directory, config_settings, metadata_directory)
    add(Path(directory) / name, daemon())
    return name


def daemon() -> Path:
    """Builds `wirespeedd`; where it lies."""
    command = [
        "cargo",
        "build",
        "--release",
        # Named so that cargo takes the extension's features of shared libraries, and with them what was compiled for it.
        "--package",
        "wirespeed-py",
        "--package",
        "wirespeed-daemon",
        "--bin",
        "wirespeedd",
        "--message-format=json-render-diagnostics",
    ]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    made = [json.loads(line).get("executable") for line in told.splitlines()]
    return Path(next(path for path in made if path))


def add(wheel: Path, script: Path) -> None:
    """Puts a program among a wheel's scripts, and the list of what is in it in step."""
    with tempfile.TemporaryDirectory() as at:
        tool = [sys.executable, "-m", "wheel"]
        subprocess.run([*tool, "unpack", "--dest", at, wheel], check=True, stdout=subprocess.DEVNULL)
        (folder,) = Path(at).iterdir()
        scripts = folder / f"{folder.name}.data" / "scripts"
        scripts.mkdir(parents=True, exist_ok=True)
        (scripts / script.name).write_bytes(script.read_bytes())
        (scripts / script.name).chmod(0o755)
        subprocess.run([*tool, "pack", "--dest-dir", wheel.parent, folder], check=True, stdout=subprocess.DEVNULL)
