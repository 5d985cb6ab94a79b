"""The router's kernels: compiles them for GPUs, and says whether the shipped PTX is of the sources that are here.

`python tests/house/kernels.py` writes crates/router/kernels/router.ptx. The compiler is that of CUDA 13.0, which comes
with the extra `cuda` of pyproject.toml and needs no GPU. What it writes is PTX of ISA 9.0, which drivers read from the
580 series on. Nothing in it is newer than ISA 8.0, so that is what it is told to be: drivers of CUDA 12 read it, too.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[2] / "crates" / "router" / "kernels"
PTX = KERNELS / "router.ptx"
SOURCES = (
    "platform.h",
    "router.h",
    "functions.h",
    "classify.h",
    "fragment.h",
    "inspect.h",
    "program.h",
    "gather.h",
    "link.h",
    "router.cu",
)
RELEASE = "release 13.0"
# Turing: the oldest that CUDA 13 compiles for. The driver compiles the PTX for the GPU that it finds.
TARGET = "compute_75"
# What the compiler says its PTX is, and what it is made to say: that of CUDA 12.0, whose assembler takes it.
WRITTEN, ISA = ".version 9.0\n", ".version 8.0\n"


def digest() -> str:
    """SHA-256 of the sources."""
    found = hashlib.sha256()
    for name in SOURCES:
        found.update(name.encode() + b"\0" + (KERNELS / name).read_bytes() + b"\0")
    return found.hexdigest()


def shipped() -> str | None:
    """The digest that the shipped PTX says it was made of."""
    said = re.match(r"// sources: sha256 ([0-9a-f]{64})\n", PTX.read_text())
    return said[1] if said else None


def folder() -> Path | None:
    """Where the compiler's Python packages are."""
    try:
        spec = importlib.util.find_spec("nvidia.cu13")
    except ModuleNotFoundError:
        return None
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def compiler() -> list[str] | None:
    """The command that compiles, if it is CUDA 13.0."""
    packages = folder()
    found = packages / "bin" / "nvcc" if packages else shutil.which("nvcc")
    if not found or not Path(found).exists():
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    if RELEASE not in said:
        return None
    return [str(found), *([f"-I{packages / 'include'}"] if packages else [])]


def ptx(command: list[str]) -> str:
    """The kernels as PTX, with a first line that names their sources."""
    done = subprocess.run(
        [*command, f"-arch={TARGET}", "-ptx", str(KERNELS / "router.cu"), "-o", "/dev/stdout"],
        capture_output=True,
        text=True,
        check=True,
    )
    if done.stdout.count(WRITTEN) != 1:
        raise ValueError(f"the compiler's PTX has no single line {WRITTEN!r}")
    return f"// sources: sha256 {digest()}\n{done.stdout.replace(WRITTEN, ISA)}"


def main() -> int:
    command = compiler()
    if command is None:
        print("no nvcc of CUDA 13.0: .venv/bin/pip install '.[cuda]', or install CUDA 13.0", file=sys.stderr)
        return 1
    PTX.write_text(ptx(command))
    print(f"wrote {PTX.relative_to(Path.cwd()) if PTX.is_relative_to(Path.cwd()) else PTX}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
