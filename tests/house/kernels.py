"""The router's kernels: compiles them for GPUs, and says whether the shipped PTX is of the sources that are here.

`python tests/house/kernels.py` writes crates/router/kernels/router.ptx. The compiler is that of CUDA 13.0: newer ones
make PTX that drivers of the 580 series do not read. It comes with the extra `cuda` of pyproject.toml, and needs no GPU.
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
SOURCES = ("platform.h", "router.h", "functions.h", "classify.h", "fragment.h", "inspect.h", "program.h", "router.cu")
RELEASE = "release 13.0"
# Turing: the oldest that CUDA 13 compiles for. The driver compiles the PTX for the GPU that it finds.
TARGET = "compute_75"


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
    return f"// sources: sha256 {digest()}\n{done.stdout}"


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
