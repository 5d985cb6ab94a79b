"""The router's kernels for GPUs: what is shipped is of these sources, fits in registers, and loads no single bytes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import kernels
import pytest

NO_COMPILER = "no nvcc of CUDA 13.0 (the extra `cuda` of pyproject.toml has it)"


def needs_compiler() -> list[str]:
    command = kernels.compiler()
    if command is None:
        pytest.skip(NO_COMPILER)
    return command


_made: dict[tuple[str, ...], tuple[str, bytes]] = {}


def machine_code(command: list[str], source: Path) -> tuple[str, bytes]:
    """What the compiler says of `source`, and the machine code: of the same once, since that takes seconds."""
    key = (*command, str(source))
    if key not in _made:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
            whole = [*command, "-cubin", "-Xptxas", "-v", str(source), "-o", cubin.name]
            done = subprocess.run(whole, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            _made[key] = done.stderr, Path(cubin.name).read_bytes()
    return _made[key]


def test_the_shipped_ptx_is_of_these_sources() -> None:
    assert kernels.shipped() == kernels.digest(), "crates/router/kernels changed: run `make kernels`"


def test_the_shipped_ptx_has_no_single_byte_accesses_and_no_local_memory() -> None:
    text = kernels.PTX.read_text()
    assert {"persistent", "batch", "persistent_any", "batch_any", "batch_gathered", "link"} == set(
        re.findall(r"\.visible \.entry (\w+)", text)
    )
    assert not re.findall(r"(?:ld|st)\S*\.global\S*\.[usb]8\b", text)
    assert ".local" not in text


def test_the_compiler_makes_the_shipped_ptx() -> None:
    made = kernels.ptx(needs_compiler())
    # The compiler tells its own build in a comment.
    code = [line for line in made.splitlines() if not line.startswith("//")]
    assert code == [line for line in kernels.PTX.read_text().splitlines() if not line.startswith("//")]


def test_the_shipped_ptx_is_for_drivers_of_cuda_12(tmp_path: Path) -> None:
    assert kernels.PTX.read_text().count(kernels.ISA) == 1
    # nvidia-cuda-nvcc-cu12==12.0.*, in this environment or the one that WIRESPEED_PTXAS_12 names, has it.
    assembler = os.environ.get("WIRESPEED_PTXAS_12") or shutil.which("ptxas-12.0")
    if assembler is None:
        pytest.skip("no ptxas of CUDA 12.0 (WIRESPEED_PTXAS_12 names one): the ISA is taken as it says it is")
    assert "release 12.0" in subprocess.run([assembler, "--version"], capture_output=True, text=True).stdout
    for arch in ("sm_75", "sm_90"):
        command = [assembler, f"-arch={arch}", str(kernels.PTX), "-o", str(tmp_path / arch)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def following(operations: list[str], places: dict[str, int]) -> list[list[int]]:
    """By operation of machine code, the ones that may come next."""
    joins = dict(re.findall(r"BSSY\S* (B\d+), `\((\.L_x_\w+)\)", "\n".join(operations)))
    found = []
    for at, text in enumerate(operations):
        names = [] if "BSSY" in text else re.findall(r"\.L_x_\w+", text)
        # Who waits for the others of its warp goes on behind.
        held = re.search(r"BSYNC\S* (B\d+)", text)
        if held and held[1] in joins:
            names.append(joins[held[1]])
        ends = re.match(r"(EXIT|BRX|BRA(?!\.DIV)\S*|RET\S*)\s*(?!.*\bU?P\d)", text) is not None
        on = [] if ends or at + 1 == len(operations) else [at + 1]
        found.append([places[each] for each in names if each in places] + on)
    return found


def polls(code: str) -> dict[str, tuple[int, int]]:
    """By kernel: how often it sleeps, and after how many of these it sleeps again without an emptied L1 between."""
    found = {}
    for name, body in re.findall(r"^\.text\.(\w+):\n(.*?)(?=^\.text\.|\Z)", code, re.DOTALL | re.MULTILINE):
        places: dict[str, int] = {}
        operations: list[str] = []
        lines = re.findall(r"^(\.L_x_\w+):|/\*[0-9a-f]{4,}\*/\s+(\S[^;]*?)\s*;", body, re.MULTILINE)
        for label, operation in lines:
            if label:
                places[label] = len(operations)
            else:
                operations.append(operation)
        after = following(operations, places)
        sleeps = [at for at, text in enumerate(operations) if "NANOSLEEP" in text]
        again = 0
        for sleep in sleeps:
            seen: set[int] = set()
            todo = list(after[sleep])
            while todo:
                at = todo.pop()
                if at not in seen and "CCTL.IVALL" not in operations[at]:
                    seen.add(at)
                    todo += after[at]
            again += sleep in seen
        if sleeps:
            found[name] = (len(sleeps), again)
    return found


def needs_disassembler() -> str:
    packages = kernels.folder()
    tool = (packages and shutil.which("nvdisasm", path=str(packages / "bin"))) or shutil.which("nvdisasm")
    if tool is None:
        pytest.skip("no nvdisasm (nvidia-cuda-nvdisasm has it): machine code is not read")
    return tool


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_100"])
def test_who_waits_does_not_empty_the_caches_of_who_works(arch: str, tmp_path: Path) -> None:
    command, disassembler = needs_compiler(), needs_disassembler()

    def compiled(source: Path) -> dict[str, tuple[int, int]]:
        cubin = tmp_path / "router.cubin"
        cubin.write_bytes(machine_code([*command, f"-arch={arch}"], source)[1])
        read = subprocess.run([disassembler, "-c", str(cubin)], capture_output=True, text=True, check=True)
        return polls(read.stdout)

    # The dispatcher sleeps, and the worker; who answers counts sleeps, too.
    assert compiled(kernels.KERNELS / "router.cu") == {"persistent": (2, 2), "persistent_any": (2, 2), "link": (1, 1)}
    if arch != "sm_90":
        return
    # With loads that acquire in place of glances both would empty them each time.
    for name in kernels.SOURCES:
        text = (kernels.KERNELS / name).read_text().replace("ld.relaxed.", "ld.acquire.")
        (tmp_path / name).write_text(text)
    assert compiled(tmp_path / "router.cu") == {"persistent": (2, 0), "persistent_any": (2, 0), "link": (1, 0)}


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_100"])
def test_the_kernels_compile_without_spills(arch: str, tmp_path: Path) -> None:
    command = needs_compiler()
    cubin = tmp_path / "router.cubin"
    said, code = machine_code([*command, f"-arch={arch}"], kernels.KERNELS / "router.cu")
    cubin.write_bytes(code)
    assert "warning" not in said.lower(), said
    spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", said)
    assert spills == [("0", "0", "0")] * 6, said
    found = re.findall(r"entry function '(\w+)'.*?Used (\d+) registers", said, re.DOTALL)
    registers = {name: int(n) for name, n in found}
    # 65536 registers a core: 64 leave room for 32 warps, the paper's largest MCW, 96 of chains and inspection for 20.
    assert {name: n <= (96 if name.endswith("_any") else 64) for name, n in registers.items()} == dict.fromkeys(
        ("persistent", "batch", "batch_gathered", "link", "persistent_any", "batch_any"), True
    ), said
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
    text = read.stdout
    assert "LDG" in text
    # .U8 and .S8 are single bytes.
    assert not re.findall(r"\b(?:LDG|LD|STG|ST)\.\S*[US]8\b.*", text)
    assert not re.findall(r"\b(?:LDL|STL)\b.*", text), "local memory"
