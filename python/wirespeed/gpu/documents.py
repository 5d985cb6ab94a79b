"""Documents of `wirespeed.gpu`: what they hold."""

from __future__ import annotations

from typing import Any, TypedDict


class GpuDelay(TypedDict):
    """Of a packet, from its last bit to its hand-over; ns. The parts sum to the mean."""

    mean: float
    p50: float
    p99: float
    parts: dict[str, float]


class GpuBound(TypedDict):
    """A resource: Mpps at which it is full, and its use at the rate that is carried."""

    resource: str
    mpps: float
    used: float


class GpuOccupancy(TypedDict):
    """Warps that a core holds, those that registers, shared memory and the core allow, and which of these binds."""

    warps: int
    of: int
    by_registers: int | None
    by_shared: int | None
    limit: str
    held: float


class GpuFound(TypedDict):
    """What a system does with the work."""

    system: str
    carries_mpps: float
    carries_gbps: float
    limit: str
    gpu_mpps: float
    gpu_limit: str
    bounds: list[GpuBound]
    offered_mpps: float
    offered_gbps: float
    keeps_up: bool
    delivered_mpps: float
    delay_ns: GpuDelay
    simd_efficiency: float
    instructions_per_packet: float
    sectors_per_packet: float
    l2_hit_rate: float
    dram_bytes_per_packet: float | None
    occupancy: GpuOccupancy
    members: list[dict[str, Any]]


class GpuPoint(TypedDict):
    """A value of the varied setting, None where nothing is varied, and what each system does there."""

    value: Any
    systems: list[GpuFound]


class GpuDocument(TypedDict):
    """What `wirespeed.gpu` gives."""

    schema: str
    preset: str
    title: str
    parts: float
    functions: list[str]
    frame_bytes: float
    gpu: dict[str, Any]
    idle: dict[str, float]
    vary: str | None
    load: dict[str, Any] | None
    seed: int
    points: list[GpuPoint]
    notes: list[str]
