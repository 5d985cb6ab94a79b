"""Builds the extension and `wirespeedd` in cargo's profile of tests, with the tests, and puts them into the environment
that runs this: `maturin develop` without maturin, which would have cargo resolve features for the extension alone, and
compile most libraries a second time beside those of the tests.
"""

from __future__ import annotations

import compileall
import json
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ["cargo", "build", "--workspace", "--lib", "--bins", "--tests", "--locked"]


def built() -> dict[str, Path]:
    """Runs cargo: the file of each target that is a shared library or a program, by its name."""
    files = {}
    command = [*BUILD, "--message-format=json-render-diagnostics"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as cargo:
        for line in cargo.stdout or ():
            said = json.loads(line)
            if said["reason"] != "compiler-artifact" or said["profile"]["test"]:
                continue
            if said["executable"]:
                files[said["target"]["name"]] = Path(said["executable"])
            elif said["target"]["kind"] == ["cdylib"]:
                files[said["target"]["name"]] = Path(said["filenames"][0])
    if cargo.returncode:
        sys.exit(cargo.returncode)
    return files


def replace(source: Path, target: Path) -> None:
    """Copies `source` beside `target` and renames it: a process that runs the old one keeps it."""
    beside = target.with_name(f".{target.name}.new")
    shutil.copy2(source, beside)
    beside.replace(target)


def main() -> None:
    """Builds and installs."""
    files = built()
    python, scripts = ROOT / "python", Path(sys.executable).parent
    replace(files["_wirespeed"], python / "wirespeed" / "_wirespeed.abi3.so")
    replace(files["wirespeedd"], scripts / "wirespeedd")
    Path(sysconfig.get_path("purelib"), "wirespeed.pth").write_text(f"{python}\n")
    # Where Python may write none, every command of a test would compile it again: a third of what a command takes.
    compileall.compile_dir(python, quiet=1)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, entry in project["scripts"].items():
        module, function = entry.split(":")
        command = scripts / name
        # As pip writes it: a worker that a command starts imports the command again, and is not to run it.
        command.write_text(
            f"#!{sys.executable}\nimport sys\n\nfrom {module} import {function}\n\n"
            f'if __name__ == "__main__":\n    sys.exit({function}())\n'
        )
        command.chmod(0o755)


if __name__ == "__main__":
    main()
