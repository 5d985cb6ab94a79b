"""Every shipped scenario measures what its name says: it rejects next to nothing, and offers the share it states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import wirespeed

FOLDER = Path(__file__).resolve().parents[2] / "presets" / "scenarios"
SCENARIOS = sorted(FOLDER.glob("*.toml"))
# Enough for a table of sessions to fill, were it too small; fewer where payloads are searched byte by byte.
PACKETS, SEARCHED = 50_000, 4_000
LEAST_SHARE = 0.01


def header(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return " ".join(
        line.lstrip("# ") for line in lines[: next(i for i, x in enumerate(lines) if not x.startswith("#"))]
    )


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_a_shipped_scenario_rejects_next_to_nothing_and_offers_what_it_states(path: Path) -> None:
    packets = SEARCHED if "inspect" in path.read_text(encoding="utf-8") else PACKETS
    settings = {"run.packets": packets, "run.curve": [], "function.forward.prefixes": 20_000}
    summary = wirespeed.run(str(path), set=settings).summary
    stated = re.search(r"Offers (\d+) % of line rate", header(path))
    assert stated, "the header comment states which share of line rate is offered"
    share = summary["offered_gbps"] / summary["line_rate_gbps"]
    assert share == pytest.approx(int(stated[1]) / 100, rel=0.1)
    assert share >= LEAST_SHARE
    rejected = summary["rejected"] / summary["packets"]
    assert rejected < 0.01 or "Rejects" in header(path), summary["drops"]
