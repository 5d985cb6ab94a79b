"""Summaries for the tests of renderers: a sound run, and the ways in which a run can be strange."""

from __future__ import annotations

import copy
import itertools
import json
import math
from pathlib import Path
from typing import Any

from wirespeed import files, sealed
from wirespeed.stored import TABLES

LABELS = {
    "pcie": "PCIe transfer",
    "pcie_queue": "waiting for PCIe",
    "dma_memory": "DMA in LLC or DRAM",
    "ring": "waiting in the RX ring",
    "burst": "waiting for others of its burst",
    "core": "executing instructions",
    "l1": "L1 hit",
    "l2": "L2 hit",
    "interconnect": "on-chip interconnect",
    "llc": "LLC hit or lookup",
    "mshr": "all outstanding misses in use",
    "dram_path": "way to the DRAM controller and back",
    "dram_queue": "DRAM controller queue",
    "bank_busy": "DRAM bank busy",
    "row_hit": "DRAM row hit",
    "row_miss": "DRAM row miss",
    "row_conflict": "DRAM row conflict",
    "bus": "DRAM data bus busy",
    "refresh": "DRAM refresh",
    "tx_queue": "waiting for the TX port",
}
SHARES = [14, 1, 1, 22, 19, 16, 2, 4, 3, 6, 0.5, 1, 2, 1.5, 1, 4, 1.5, 0.5, 0.4, 0.6]


def attribution(mean: float, tilt: float = 1.0) -> dict[str, float]:
    """Parts that sum to `mean`; `tilt` makes the waits larger."""
    weights = [share * (tilt if i in (1, 3, 4, 12, 13) else 1) for i, share in enumerate(SHARES)]
    return {name: mean * w / sum(weights) for name, w in zip(LABELS, weights, strict=True)}


def sojourn(mean: float) -> dict[str, float]:
    return {
        "mean": mean,
        "half_width": mean * 0.003,
        "min": mean * 0.3,
        "p50": mean * 0.94,
        "p50_half_width": mean * 0.002,
        "p99": mean * 2.2,
        "p99_half_width": mean * 0.03,
        "p999": mean * 3.4,
        "p999_half_width": mean * 0.12,
        "max": mean * 6.1,
    }


def distribution(quantiles: dict[str, float]) -> list[list[float]]:
    """A distribution through the quantiles, straight in log time between them."""
    knots = [("min", 0.0), ("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)]
    points = []
    for (low, a), (high, b) in itertools.pairwise(knots):
        for i in range(50):
            part = math.sin(math.pi / 2 * i / 50) if low == "p50" else i / 50
            points.append([quantiles[low] * (quantiles[high] / quantiles[low]) ** (i / 50), a + (b - a) * part])
    return [*points, [quantiles["max"], 1.0]]


def sound(**changes: Any) -> dict[str, Any]:
    """A run that loses packets in the RX ring, with every part of the document present."""
    mean = 4120.5
    summary: dict[str, Any] = {
        "schema": "wirespeed.run/1",
        "run_id": "1f0c2b3a4d5e6f70",
        "seed": 1,
        "version": "0.1.0",
        "commit": "abc1234",
        "name": "forwarding on a Xeon Gold 6140",
        "partial": False,
        "verdict": {
            "keeps_wire_speed": False,
            "headline": "Does not keep wire speed: 9.21 of 10.0 Gbps carried, 7.9 % of packets lost.",
            "reasons": [
                "Core 0 is busy 100 % of the time while its RX ring overflows.",
                "A quarter of the core's time is spent waiting for DRAM rows.",
            ],
            "advice": ["Give the function 2 more LLC ways: machine.llc.ways = 8", "Use a second core and RSS."],
        },
        "packets": 1_000_000,
        "warmup_packets": 100_000,
        "stationary": True,
        "offered_mpps": 14.88,
        "carried_mpps": 13.7,
        "offered_gbps": 10.0,
        "carried_gbps": 9.21,
        "offered_l2_gbps": 7.62,
        "carried_l2_gbps": 7.0,
        "line_rate_gbps": 10.0,
        "load": 1.0,
        "loss": 0.079,
        "loss_half_width": 0.0009,
        "loss_upper_95": 0.0799,
        "drops": {"no_rx_descriptor": 78_900, "nic_fifo_full": 100, "ttl_expired": 12, "no_route": 6123, "bad_sum": 0},
        "lost": 79_000,
        "rejected": 6135,
        "sojourn_ns": sojourn(mean),
        "attribution_ns": attribution(mean),
        "attribution_labels": dict(LABELS),
        "classes": [
            {
                "name": name,
                "packets": packets,
                "sojourn_ns": sojourn(mean * scale),
                "attribution_ns": attribution(mean * scale, tilt),
            }
            for name, packets, scale, tilt in [
                ("<= 64 B", 512_000, 0.92, 0.8),
                ("65-576 B", 288_000, 1.0, 1.0),
                ("577-1518 B", 200_000, 1.22, 1.5),
            ]
        ],
        "sojourn_cdf": distribution(sojourn(mean)),
        "levels": [
            {"name": "L1d", "hits": 41_000_000, "misses": 2_100_000, "hit_rate": 41 / 43.1},
            {"name": "L2", "hits": 1_400_000, "misses": 700_000, "hit_rate": 2 / 3},
            {"name": "LLC", "hits": 610_000, "misses": 90_000, "hit_rate": 61 / 70},
            {"name": "DDIO", "hits": 1_900_000, "misses": 4_000, "hit_rate": 0.9979},
        ],
        "dram": {
            "reads": 88_000,
            "writes": 21_000,
            "row_hits": 31_000,
            "row_misses": 52_000,
            "row_conflicts": 26_000,
            "bandwidth_gb_per_s": 1.93,
            "peak_gb_per_s": 21.3,
            "share": {"data": 0.09, "activate": 0.03, "refresh": 0.04, "idle": 0.84},
        },
        "cores": [
            {
                "core": c,
                "packets": 250_000,
                "busy": busy,
                "polling": 1 - busy,
                "instructions_per_packet": 171.2,
                "cycles_per_packet": 240.7,
                "cycles": {"core": 140.0, "l2": 0.2, "llc": 60.5, "row_miss": 40.0},
            }
            for c, busy in enumerate([1.0, 0.83, 0.71, 0.69])
        ],
        "curve": [
            {
                "load": load,
                "offered_mpps": 14.88 * load,
                "carried_mpps": min(14.88 * load, 13.72),
                "loss": max(0.0, 1 - 13.72 / (14.88 * load)),
                "p50_ns": 900 / (1.02 - min(load, 0.9)),
                "p99_ns": 1500 / (1.02 - min(load, 0.93)),
            }
            for load in [0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 1.0]
        ],
        "search": {
            "kind": "ndr",
            "mpps": 12.9,
            "gbps": 8.67,
            "load": 0.867,
            "loss_limit": 0.0,
            "trials": [
                {
                    "load": load,
                    "offered_mpps": 14.88 * load,
                    "carried_mpps": min(14.88 * load, 12.95),
                    "loss": max(0.0, 1 - 12.95 / (14.88 * load)),
                    "lost": int(max(0.0, 1 - 12.95 / (14.88 * load)) * 1e6),
                    "packets": 1_000_000,
                    "pass": 14.88 * load <= 12.95,
                }
                for load in [1.0, 0.5, 0.75, 0.875, 0.8125, 0.867]
            ],
        },
        "traffic": {
            "source": "capture isp_nz_20100113.pcap.gz",
            "packets_in_file": 812_345,
            "damage": [{"offset": 123_456, "what": "record length 70000 is beyond the snap length 65535"}],
            "damage_count": 3,
            "damage_by_kind": [
                {
                    "kind": "corrupt",
                    "count": 3,
                    "offset": 123_456,
                    "what": "record length 70000 is beyond the snap length",
                }
            ],
            "mean_frame_bytes": 412.7,
        },
        "table": {
            "source": "rib.txt",
            "damage": [{"offset": 17, "what": 'line 2: "x" is not a prefix'}],
            "damage_count": 1,
            "damage_by_kind": [{"kind": "corrupt", "count": 1, "offset": 17, "what": 'line 2: "x" is not a prefix'}],
        },
        "notes": ["the IPv4 header checksum is 0 in 50 of 50 packets of the capture"],
        "warmup": {"packets": 100_000, "end": "settled", "why": "The first 100,000 packets were cut as warm-up."},
        "machine": {"name": "Xeon Gold 6140", "cores": 4, "driver": None, "llc_mib": 24.75, "dram": "DDR4-2666"},
        "wall_s": 0.93,
        "simulated_s": 0.0672,
        "packets_per_wall_s": 1.07e6,
    }
    summary.update(copy.deepcopy(changes))
    return summary


def lossless(**changes: Any) -> dict[str, Any]:
    """A run that keeps wire speed: zero loss, no curve, no search, sound input."""
    return sound(
        **{
            "verdict": {
                "keeps_wire_speed": True,
                "status": "carries",
                "headline": "Carries the 4.00 Gbps offered (40 % of line rate): none of 1,000,000 packets lost.",
                "reasons": ["The busiest core works 41 % of the time."],
                "advice": [],
            },
            "loss": 0.0,
            "loss_half_width": 0.0,
            "loss_upper_95": 3e-6,
            "lost": 0,
            "offered_mpps": 5.95,
            "carried_mpps": 5.95,
            "offered_gbps": 4.0,
            "carried_gbps": 4.0,
            "load": 0.4,
            "rejected": 0,
            "drops": {"no_rx_descriptor": 0, "ttl_expired": 0},
            "curve": [],
            "search": None,
            "series": [
                {
                    "start_ns": i * 1e6,
                    "width_ns": 1e6,
                    "offered_mpps": 5.95 + 0.3 * math.sin(i / 3),
                    "carried_mpps": 5.95 + 0.3 * math.sin((i - 0.4) / 3),
                    "loss": 0.0,
                    "sojourn_mean_ns": 4000.0 + 200 * math.sin(i / 3),
                    "ring_packets": 4.0 + math.sin(i / 3),
                    "llc_hit_rate": 0.97 + 0.01 * math.sin(i / 3),
                    "dram_gb_per_s": 1.9,
                    "core_busy": 0.41,
                }
                for i in range(60)
            ],
            "traffic": {"source": "profile isp", "mean_frame_bytes": 412.7},
            "table": {"source": "made, 20000 prefixes", "damage": [], "damage_count": 0},
            "notes": [],
        }
        | changes
    )


def empty() -> dict[str, Any]:
    """A run in which no packet was measured: stopped during warm-up."""
    nan = float("nan")
    return sound(
        partial=True,
        verdict={"keeps_wire_speed": False, "headline": "", "reasons": [], "advice": []},
        packets=0,
        stationary=False,
        offered_mpps=0.0,
        carried_mpps=0.0,
        offered_gbps=0.0,
        carried_gbps=0.0,
        loss=nan,
        loss_half_width=nan,
        loss_upper_95=1.0,
        lost=0,
        rejected=0,
        drops={},
        sojourn_ns=dict.fromkeys(sojourn(1.0), nan),
        attribution_ns=dict.fromkeys(LABELS, nan),
        classes=[],
        sojourn_cdf=[],
        levels=[{"name": "L1d", "hits": 0, "misses": 0, "hit_rate": nan}],
        dram={"reads": 0, "writes": 0, "row_hits": 0, "row_misses": 0, "row_conflicts": 0, "share": {}},
        cores=[{"core": 0, "packets": 0, "busy": nan, "polling": nan}],
        curve=[],
        search=None,
    )


def odd() -> dict[str, Any]:
    """Long names, markup in names, a reason nobody knows, null half-widths, one point in the distribution."""
    long = "a very long name " * 12 + "withoutanyspaceatall" * 8
    summary = sound(
        name=f"<script>alert('{long}')</script>",
        stationary=False,
        partial=True,
        sojourn_cdf=[[4120.5, 1.0]],
        curve=[{"load": 0.5, "offered_mpps": 1.0, "carried_mpps": 1.0, "loss": 0.0, "p50_ns": None, "p99_ns": None}],
    )
    summary["attribution_ns"]["quantum_foam"] = 12.0
    summary["drops"]["<b>bold</b>_" + long] = 3
    summary["classes"][0]["name"] = long
    summary["levels"][0]["name"] = "[red]L1d[/red]" + long
    summary["sojourn_ns"]["p999_half_width"] = None
    summary["traffic"]["source"] = "capture /" + "deep/" * 60 + "x.pcap"
    summary["machine"]["name"] = long
    return summary


def minimal() -> dict[str, Any]:
    """Only what the command line promises."""
    whole = sound()
    keep = ("packets", "carried_mpps", "loss", "sojourn_ns", "attribution_ns", "wall_s", "seed", "run_id")
    return {key: whole[key] for key in keep}


CASES = {"sound": sound, "lossless": lossless, "empty": empty, "odd": odd, "minimal": minimal}


def keep(folder: Path, summary: dict[str, Any], rows: Any) -> None:
    """Writes a result as `--out` does: each table has `rows`, their first column under the table's own name."""
    from pyarrow import parquet

    (folder / "scenario.toml").write_text("seed = 1\n", encoding="utf-8")
    for name in TABLES:
        parquet.write_table(rows.rename_columns([name, "value"]), folder / f"{name}.parquet")
    names = ["scenario.toml", *(f"{name}.parquet" for name in TABLES)]
    digests = {name: files.digest((folder / name).read_bytes()) for name in names}
    (folder / "summary.json").write_text(
        json.dumps(sealed.seal({"batches": {}} | summary | {"files": digests})), encoding="utf-8"
    )
