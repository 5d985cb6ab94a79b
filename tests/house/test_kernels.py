"""The router's kernels for GPUs: what is shipped is of these sources, fits in registers, and loads no single bytes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import kernels
import pytest

NO_COMPILER = "no nvcc of CUDA 13.0 (the extra `cuda` of pyproject.toml has it)"


def needs_compiler() -> list[str]:
    command = kernels.compiler()
    if command is None:
        pytest.skip(NO_COMPILER)
    return command


def test_the_shipped_ptx_is_of_these_sources() -> None:
    assert kernels.shipped() == kernels.digest(), "crates/router/kernels changed: run `make kernels`"


def test_the_shipped_ptx_has_no_single_byte_accesses_and_no_local_memory() -> None:
    text = kernels.PTX.read_text()
    assert {"persistent", "batch", "persistent_any", "batch_any"} == set(re.findall(r"\.visible \.entry (\w+)", text))
    assert not re.findall(r"(?:ld|st)\S*\.global\S*\.[usb]8\b", text)
    assert ".local" not in text


def test_the_compiler_makes_the_shipped_ptx() -> None:
    made = kernels.ptx(needs_compiler())
    # The compiler tells its own build in a comment.
    code = [line for line in made.splitlines() if not line.startswith("//")]
    assert code == [line for line in kernels.PTX.read_text().splitlines() if not line.startswith("//")]


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_100"])
def test_the_kernels_compile_without_spills(arch: str, tmp_path: Path) -> None:
    command = needs_compiler()
    cubin = tmp_path / "router.cubin"
    source = str(kernels.KERNELS / "router.cu")
    done = subprocess.run(
        [*command, f"-arch={arch}", "-cubin", "-Xptxas", "-v", source, "-o", str(cubin)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr.lower(), done.stderr
    spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr)
    assert spills == [("0", "0", "0")] * 4, done.stderr
    found = re.findall(r"entry function '(\w+)'.*?Used (\d+) registers", done.stderr, re.DOTALL)
    registers = {name: int(n) for name, n in found}
    # 65536 registers a core: 64 leave room for 32 warps, the paper's largest MCW, 96 of chains and inspection for 20.
    assert {name: n <= (96 if name.endswith("_any") else 64) for name, n in registers.items()} == dict.fromkeys(
        ("persistent", "batch", "persistent_any", "batch_any"), True
    ), done.stderr
    packages = kernels.folder()
    tool = (packages and shutil.which("cuobjdump", path=str(packages / "bin"))) or shutil.which("cuobjdump")
    if tool is None:
        print("no cuobjdump: machine code is not read, PTX was")
        return
    # It calls nvdisasm, which lies beside it.
    path = os.pathsep.join([str(Path(tool).parent), os.environ.get("PATH", "")])
    read = subprocess.run([tool, "-sass", str(cubin)], capture_output=True, text=True, env={**os.environ, "PATH": path})
    if read.returncode != 0:
        print(f"machine code is not read: {read.stderr.strip()}")
        return
    code = read.stdout
    assert "LDG" in code
    # .U8 and .S8 are single bytes.
    assert not re.findall(r"\b(?:LDG|LD|STG|ST)\.\S*[US]8\b.*", code)
    assert not re.findall(r"\b(?:LDL|STL)\b.*", code), "local memory"
