"""What an outcome of the simulator says of the whole GPU: rates, what binds, occupancy.

A resource's bound is the rate that is carried over the resource's use, both as the saturated GPU has them. So it is its
capacity over what a packet takes of it: cores x clock over instructions, bandwidth over bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from wirespeed import units
from wirespeed.gpu import machines
from wirespeed.gpu.documents import GpuBound, GpuDelay, GpuFound, GpuOccupancy
from wirespeed.gpu.machines import LINE, WARP, Gpu
from wirespeed.gpu.work import APPLICATIONS

IO: Final = "packet I/O"
# Of what the tightest bound allows: a GPU that carries less has too few warps to hide latencies.
_BOUND: Final = 0.8
# Check sequence, preamble and gap (IEEE 802.3).
_WIRE: Final = 24
_PARTS: Final = ("fill", "queue", "copy_in", "execute", "commit")

Outcome = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Loaded:
    """An outcome at the load, of one of so many parts of the GPU."""

    outcome: Outcome
    parts: float


def value(outcome: Outcome, name: str) -> float:
    """A measure's mean over the runs."""
    return float(outcome[name]["value"])


def frame_bytes(outcome: Outcome) -> float:
    """Mean bytes of a frame, without its check sequence."""
    return value(outcome, "throughput_gbps") * 1e3 / 8 / value(outcome, "throughput_mpps")


def bounds(gpu: Gpu, full: Outcome, parts: float) -> list[GpuBound]:
    """Bounds of the resident kernel by its saturated outcome `full`, of one of so many parts; the tightest first."""
    part, _ = gpu.part()
    spec, hertz = part["gpu"], gpu.hertz
    mpps = value(full, "throughput_mpps")
    warps_a_clock = mpps * 1e6 / WARP / hertz
    at_full = {
        "issue": value(full, "issue_utilization") * WARP / spec["simd_width"],
        "L1": value(full, "sectors_per_warp") * warps_a_clock / spec["cores"],
        "DRAM": _dram_bytes(part, full) * mpps / 1e3 / machines.idle(Gpu("", "", part))["dram_gb_per_s"],
        "task FIFO": warps_a_clock,
    }
    if dispatcher := part["hermes"].get("dispatcher"):
        at_full["dispatcher"] = mpps / 1e3 / WARP / int(dispatcher["most"]) * machines.round_ns(dispatcher)
    if "l2_sectors_per_warp" in full or "l1" not in spec:
        sectors = value(full, "l2_sectors_per_warp" if "l2_sectors_per_warp" in full else "sectors_per_warp")
        at_full["L2"] = sectors * warps_a_clock / spec["l2"]["banks"]
    found = [GpuBound(resource=name, mpps=mpps * parts / use, used=use) for name, use in at_full.items() if use > 0]
    return sorted(found, key=lambda bound: bound["mpps"])


def batch_bounds(gpu: Gpu, at_load: Outcome, full: Outcome) -> list[GpuBound]:
    """Bounds of batches by the stages that overlap: copies in closed form, a kernel's time from a run at the load."""
    batch = gpu.spec["batch"]
    packets, copy_ns = batch["packets"], machines.span_ns("batch.copy", batch["copy"])
    link = machines.quantity("batch.link", batch["link"], "bits") / 1e9
    frame = frame_bytes(full)
    back = frame if batch["results"] == "frames" else 4.0
    kernel_ns = value(at_load, "execute_ns")
    times = {
        "copy in": copy_ns + packets * frame * 8 / link,
        "kernel": kernel_ns,
        "copy back": copy_ns + packets * back * 8 / link,
    }
    if batch["overlap"] != "three_streams":
        times = {"all stages": sum(times.values())}
    found = [GpuBound(resource=name, mpps=packets * 1e3 / ns, used=0.0) for name, ns in times.items() if ns > 0]
    return sorted(found, key=lambda bound: bound["mpps"])


def alone(gpu: Gpu, system: str, full: Outcome, parts: float) -> float:
    """Mpps of the GPU with packets laid in beforehand, and no more than memory leaves beside a NIC."""
    simulated = value(full, "throughput_mpps") * parts
    if system == "batch":
        return simulated
    return min([simulated, *(b["mpps"] for b in bounds(gpu, full, parts) if b["resource"] == "DRAM")])


def io_mpps(gpu: Gpu, full: Outcome) -> float:
    """Mpps that come and go."""
    return gpu.io_gbps * 1e3 / 8 / frame_bytes(full)


def limit(system: str, mpps: float, found: list[GpuBound], occupancy: GpuOccupancy) -> str:
    """What binds the GPU: the tightest resource, or latency where the rate stays well below it."""
    tightest = found[0]
    if mpps >= _BOUND * tightest["mpps"] or system == "batch":
        return tightest["resource"]
    return f"latency: {occupancy['warps']} warps a core, by {occupancy['limit']}"


def warps(gpu: Gpu, kernel: Mapping[str, int]) -> tuple[int, str]:
    """Warps of a kernel that a core holds, and what limits them."""
    name, fits = min(_allowed(gpu, kernel).items(), key=lambda each: each[1])
    return fits, name


def _allowed(gpu: Gpu, kernel: Mapping[str, int]) -> dict[str, int]:
    spec = gpu.spec["gpu"]
    allowed = {"the core": spec["mcw"]}
    if kernel["registers"]:
        allowed["registers"] = spec["registers"] // (WARP * kernel["registers"])
    if kernel["shared"]:
        allowed["shared memory"] = units.size("gpu.shared", str(spec["shared"])) // kernel["shared"]
    return allowed


def occupancy(gpu: Gpu, kernel: Mapping[str, int], at_load: Outcome) -> GpuOccupancy:
    """Warps of a core, and what limits them."""
    allowed = _allowed(gpu, kernel)
    fits, name = warps(gpu, kernel)
    return GpuOccupancy(
        warps=fits,
        of=gpu.spec["gpu"]["mcw"],
        by_registers=allowed.get("registers"),
        by_shared=allowed.get("shared memory"),
        limit=name,
        held=value(at_load, "occupancy"),
    )


def delay(at_load: Outcome) -> GpuDelay:
    """The delay of a packet."""
    return GpuDelay(
        mean=value(at_load, "delay_ns"),
        p50=value(at_load, "delay_p50_ns"),
        p99=value(at_load, "delay_p99_ns"),
        parts={name: value(at_load, f"{name}_ns") for name in _PARTS},
    )


def offered_mpps(load: Mapping[str, Any], frame: float) -> float:
    """Packets that a load of the simulator offers, of so many bytes in the mean."""
    if "line_share" in load:
        share = load["line_share"]
        return offered_mpps({"l1": share["line"]}, frame) * float(share["share"])
    (kind, rate), *_ = load.items()
    found = units.rate(kind, str(rate)).value
    return found / 1e6 if kind == "packets" else found / 1e6 / 8 / (frame + _WIRE)


def found(gpu: Gpu, system: str, kernel: Mapping[str, int], full: Outcome, loaded: Loaded) -> GpuFound:
    """What a system does: `full` is its outcome saturated."""
    parts, at_load, parts_at_load = gpu.part()[1], loaded.outcome, loaded.parts
    frame, by_gpu, by_io = frame_bytes(full), alone(gpu, system, full, parts), io_mpps(gpu, full)
    mpps = min(by_gpu, by_io)
    held = occupancy(gpu, kernel, at_load)
    all_bounds = batch_bounds(gpu, at_load, full) if system == "batch" else bounds(gpu, full, parts)
    by = limit(system, by_gpu, all_bounds, held)
    all_bounds = sorted([*all_bounds, GpuBound(resource=IO, mpps=by_io, used=0.0)], key=lambda bound: bound["mpps"])
    for bound in all_bounds:
        bound["used"] = mpps / bound["mpps"]
    offered_gbps = value(at_load, "offered_gbps") * parts_at_load
    delivered = value(at_load, "throughput_mpps") * parts_at_load
    offered = offered_gbps * 1e3 / 8 / frame_bytes(at_load)
    return GpuFound(
        system=system,
        carries_mpps=mpps,
        carries_gbps=mpps * frame * 8 / 1e3,
        limit=IO if by_io < by_gpu else by,
        gpu_mpps=by_gpu,
        gpu_limit=by,
        bounds=all_bounds,
        offered_mpps=offered,
        offered_gbps=offered_gbps,
        keeps_up=offered <= mpps,
        delivered_mpps=delivered,
        delay_ns=delay(at_load),
        simd_efficiency=value(full, "simd_efficiency"),
        instructions_per_packet=value(full, "instructions_per_warp") * value(full, "simd_efficiency"),
        sectors_per_packet=value(full, "sectors_per_warp") / WARP,
        l2_hit_rate=value(full, "l2_hit_rate"),
        dram_bytes_per_packet=_dram_bytes(gpu.part()[0], full) if system == "hermes" else None,
        occupancy=held,
        members=[_member(each) for each in full.get("members", [])],
    )


def _dram_bytes(part: Mapping[str, Any], full: Outcome) -> float:
    """Bytes of DRAM that a packet takes: peak x use over the rate, and what a NIC writes and reads of it.

    `full` has packets laid in beforehand, and warps on the GPU all the time.
    """
    peak = machines.idle(Gpu("", "", part))["dram_gb_per_s"]
    by_gpu = value(full, "dram_utilization") * peak * 1e3 / value(full, "throughput_mpps")
    has_nic = part["hermes"]["buffer"].get("nic", False)
    return by_gpu + (2 * LINE * math.ceil(frame_bytes(full) / LINE) if has_nic else 0)


def _member(of: Mapping[str, Any]) -> dict[str, Any]:
    """A function of a chain."""
    words = {simulators: word for word, simulators in APPLICATIONS.items()}
    return {key: words[each] if key == "name" else each["value"] for key, each in of.items()}
