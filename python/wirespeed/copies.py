"""Workloads of copies on a machine with and without a copy table (`crates/sim/src/copies`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wirespeed import _wirespeed

__all__ = ["run"]


def run(
    workload: Mapping[str, Any],
    method: str | Mapping[str, Any] = "table",
    *,
    machine: Mapping[str, Any] | None = None,
    costs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Runs a workload; returns clocks, instructions, copies, hit rates and what happened in the caches.

    `workload` has a `kind` (stream, receive, vhost, messages) and what differs from its defaults; `method` says who
    copies (loads, non-temporal, dma, controller, table), by name or with settings; `machine` and `costs` what differs
    from table 2 of Duarte and Wong (IEEE TC 2010). Raises InputError with the path of what cannot be.

    >>> run({"kind": "stream", "rounds": 10})["copies"]
    10
    """
    by = {"by": method} if isinstance(method, str) else dict(method)
    experiment = {"machine": dict(machine or {}), "costs": dict(costs or {}), "method": by, "workload": dict(workload)}
    return dict(json.loads(_wirespeed.run_copies(json.dumps(experiment))))
