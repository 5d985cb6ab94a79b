"""Several sockets, busy links and pages by region, on whole runs."""

from __future__ import annotations

from typing import Any

import pytest

import wirespeed
from wirespeed import InputError

QUICK = {"run.packets": 20_000, "run.curve": [], "traffic.load": 0.3, "machine.cores": 4}
TWO = {**QUICK, "machine.preset": "2x-xeon-gold-6140"}
TLB = {
    "page": "4 KiB",
    "l1_entries": 64,
    "l1_ways": 4,
    "l2_entries": 1536,
    "l2_ways": 12,
    "l2_latency": "3 ns",
    "walk_cache": 16,
}


def on(**settings: Any) -> Any:
    return wirespeed.run("forwarding", set={**TWO, **settings}).summary


def test_cores_on_the_wrong_socket_wait_for_the_link() -> None:
    near, far = (on(**{"machine.sockets.cores": [socket]}) for socket in (0, 1))
    assert near["attribution_ns"].get("socket_link", 0) == 0
    assert far["attribution_ns"]["socket_link"] > 20
    assert far["sojourn_ns"]["mean"] > near["sojourn_ns"]["mean"] + 50
    assert sum(far["attribution_ns"].values()) == pytest.approx(far["sojourn_ns"]["mean"], rel=1e-9)
    assert far["attribution_labels"]["socket_link"] == "link between sockets"
    links = {(link["from"], link["to"]): link for link in far["sockets"]["links"]}
    # Headers go from the NIC's socket to the cores', and back when the NIC sends what the cores have written.
    assert links[0, 1]["gb_per_s"] > 1
    assert links[1, 0]["gb_per_s"] > 1
    assert near["sockets"]["remote_reads"] == 0
    # One socket has nothing to tell.
    assert wirespeed.run("forwarding", set=QUICK).summary["sockets"] is None


def test_regions_lie_where_they_are_said_to() -> None:
    cores = {"machine.sockets.cores": [0]}
    away = on(**cores, **{"machine.sockets.regions": {"tables": 1}})["sockets"]
    assert away["remote_reads"] > 1_000
    round_robin = on(**cores, **{"machine.sockets.memory": "interleaved"})["sockets"]
    both = round_robin["remote_reads"] + round_robin["local_reads"]
    assert round_robin["remote_reads"] == pytest.approx(both / 2, rel=0.1)


def test_a_slower_link_costs_more() -> None:
    cores = {"machine.sockets.cores": [1]}
    fast, slow = (on(**cores, **{"machine.sockets.rate": rate}) for rate in ("500 Gbps", "20 Gbps"))
    assert slow["attribution_ns"]["socket_link"] > 2 * fast["attribution_ns"]["socket_link"]


def test_lines_wait_for_each_other_on_a_ring_with_an_interval() -> None:
    ring = {**QUICK, "machine.llc.interconnect": {"topology": "ring", "hop": "0.4 ns"}}
    free = wirespeed.run("forwarding", set=ring).summary
    busy = wirespeed.run("forwarding", set={**ring, "machine.llc.interconnect.interval": "4 ns"}).summary
    assert busy["attribution_ns"]["interconnect"] > free["attribution_ns"]["interconnect"]
    assert free["levels"] is not None


def test_huge_pages_of_some_regions_save_their_walks_only() -> None:
    def references(**pages: str) -> int:
        # So few entries that every region's pages miss; walks are loads like others.
        few = {**TLB, "l1_entries": 4, "l2_entries": 16, "l2_ways": 4}
        sizes = [{"page": "2 MiB", "l1_entries": 32, "l1_ways": 4}]
        settings = {**QUICK, "machine.tlb": {**few, "pages": pages, "sizes": sizes}}
        first = wirespeed.run("forwarding", set=settings).summary["levels"][0]
        return int(first["hits"]) + int(first["misses"])

    small, pool, tables = references(), references(mempool="2 MiB"), references(tables="2 MiB")
    everything = references(mempool="2 MiB", rings="2 MiB", tables="2 MiB")
    saved = [small - pool, small - tables, small - everything]
    assert min(saved) > 20_000, "a walk a packet and more"
    assert saved[2] > max(saved[:2]) + 10_000


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"machine.sockets.nic": 2}, r"machine\.sockets\.nic = 2: allowed is 0 to 1, the last socket"),
        ({"machine.sockets.memory": "remote"}, r'machine\.sockets\.memory.*"remote".*local.*interleaved'),
        ({"machine.sockets.regions": {"mbuf": 1}}, r"machine\.sockets\.regions = mbuf: allowed is .*mempool"),
        (
            {"machine.tlb": {**TLB, "pages": {"mempool": "2 MiB"}}},
            r"machine\.tlb\.pages\.mempool = 2 MiB: allowed is .*sizes",
        ),
    ],
)
def test_what_contradicts_itself_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        on(**settings)
