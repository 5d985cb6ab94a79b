"""What a reader asks of a run is answered from what was measured, and left out where nothing was."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

import summaries
import wirespeed
from wirespeed import ceilings, questions, summary, terminal
from wirespeed import quantities as q
from wirespeed.commands.memory import cache
from wirespeed.report import page
from wirespeed.result import change_text
from wirespeed.slowest import Slowest, slowest
from wirespeed.summary import (
    LOSSES,
    core_cycles_text,
    gpu_waits_text,
    memory_share,
    rejected_text,
    seen,
    trial_rejected,
)

SCENARIO = "[nic]\nburst = 32\n[machine]\ncores = 4\n"
# Twice line rate for cores, less for PCIe.
TWO = {"core_ghz": 2.0, "rx_descriptors": 1024, "cores": 2, "name": "Xeon"}


def busy(share: float, burst: float = 30.0, **changes: Any) -> dict[str, Any]:
    """A run at 10 Mpps, half of line rate, of two cores that are busy for a share of the time."""
    core = {"packets": 500, "busy": share, "packets_per_burst": burst, "receives": True, "cycles": {"core": 100.0}}
    found = {
        "offered_mpps": 10.0,
        "carried_mpps": 10.0,
        "load": 0.5,
        "loss": 0.0,
        "lost": 0,
        "cores": [core | {"core": n, "cycles_per_packet": 100.0} for n in (0, 1)],
        "pcie": {"to_host_link_gbps": 50.0, "from_host_link_gbps": 40.0, "rate_gbps": 75.0},
        "dram": {},
        "machine": TWO,
        "attribution_ns": {"ring": 50.0, "pcie": 950.0},
    }
    return summaries.lossless(**(found | changes))


def sample(slow: dict[str, float], count: int = 10, of: int = 1000) -> Slowest:
    """A sample of `of` packets that take 100 ns each for PCIe and ring, and `count` of them what `slow` says."""
    rows = [{"pcie": 100.0, "ring": 100.0, "lock": 0.0}] * (of - count) + [{"lock": 0.0} | slow] * count
    columns: dict[str, list[float | None]] = {
        f"at_{name}_ns": [*(row[name] for row in rows), None] for name in ("pcie", "ring", "lock")
    }
    columns["core"] = [float(n % 2) for n in range(of + 1)]
    columns["sojourn_ns"] = [*(sum(row.values()) for row in rows), None]
    found = slowest(pa.table(columns))
    assert found is not None
    return found


def core(summary: dict[str, Any]) -> str:
    return questions.one_more_core(summary, ceilings.read_settings(SCENARIO))


def rings(summary: dict[str, Any], slow: Slowest | None = None) -> str:
    return questions.rings(summary, ceilings.read_settings(SCENARIO), slow)


def test_one_more_core_brings_its_share_until_something_else_ends() -> None:
    # Two cores of 80 % go to 12.5 Mpps, three to 18.75; PCIe ends at 15.
    assert core(busy(0.8)).startswith("20 % more: 15.0 Mpps in place of 12.5 Mpps, where PCIe ends.")
    assert core(busy(0.8, pcie={})).startswith("50 % more: 18.8 Mpps in place of 12.5 Mpps. Reckoned from how busy")
    assert "at 100 cycles a packet as now" in core(busy(0.8))


def test_one_more_core_brings_nothing_where_another_part_ends_first() -> None:
    told = core(busy(0.6))
    assert told.startswith(
        "Nothing for the rate: PCIe ends at 15.0 Mpps, and the 2 cores, by how busy they are, go to 16.7"
    )
    assert "busy about 40 %, now 60 %" in told
    assert "wait less" not in told
    waits = {"attribution_ns": {"ring": 900.0, "pcie": 100.0}, "sojourn_ns": summaries.sojourn(1000.0)}
    assert "packets would wait less for it, now 900 ns" in core(busy(0.6, **waits))
    # With short bursts cores go further than that.
    assert "go to at least 16.7 Mpps" in core(busy(0.6, burst=2.0))
    assert core(busy(0.8, burst=2.0)).startswith("20 % more: 15.0 Mpps or more in place of 12.5 Mpps or more,")


def test_a_saturated_core_that_loses_is_taken_at_what_it_served() -> None:
    lossy = busy(0.999, loss=0.5, lost=500_000, load=1.0, offered_mpps=10.0, pcie={})
    assert core(lossy).startswith(
        "50 % more: 7.50 Mpps in place of 5.00 Mpps, which is less than the 10.0 Mpps that are offered."
    )
    full = lossy | {"verdict": {"limit": "dram"}}
    assert core(full) == "Nothing: DRAM is full, and cores wait for it."


def test_one_more_core_of_those_that_lose_a_little_brings_what_is_lost() -> None:
    # Line rate is all that can come, and a curve of short runs that says so is no proof.
    few = busy(0.999, loss=0.003, lost=3000, load=1.0, offered_mpps=10.0, pcie={})
    few["curve"] = [{"load": 0.999, "loss": 0.0, "carried_mpps": 9.99, "packets": 20_000}]
    few["verdict"] = {"limit": "core"}
    told = core(few)
    assert told.startswith(
        "What is lost: the 2 cores with one more would come to 15.0 Mpps, and line rate ends at 10.0"
    )


def test_one_more_core_of_a_pipeline_is_of_the_stage_that_is_full() -> None:
    piped = busy(0.8, pcie={})
    piped["cores"][1] |= {"receives": False, "busy": 0.6, "packets": 1000}
    piped["cores"][0]["packets"] = 1000
    # One receiving core goes to 12.5, two to 25; the working one to 16.7.
    assert core(piped).startswith(
        "33 % more: 16.7 Mpps in place of 12.5 Mpps, where the working stage ends. Reckoned from how busy the "
        "receiving core is"
    )


def test_locks_and_the_nics_own_rate_bound_one_more_core() -> None:
    locked = busy(0.8)
    for each in locked["cores"]:
        each["cycles"] = {"core": 80.0, "lock": 20.0}
    assert "Locks take 20 % of the cycles" in core(locked)
    assert "Locks" not in core(busy(0.8))
    settings = {"nic": {"queue_interval": "200 ns"}}
    # A queue a core: three queues take 15 Mpps, two take 10.
    assert ceilings.nic_mpps(settings, 2) == pytest.approx(10.0)
    assert questions.one_more_core(busy(0.5, pcie={}), settings).startswith(
        "50 % more: 15.0 Mpps in place of 10.0 Mpps"
    )


def test_how_much_more_is_told_beside_line_rate_and_the_models_error() -> None:
    def margin(load: float, headroom: float, **verdict: Any) -> str:
        told = {"status": "carries", "limit": "pcie", "headroom": headroom, "beyond_model_error": True} | verdict
        (found,) = [
            reply.text
            for reply in questions.ten(busy(0.5, load=load, verdict=told), SCENARIO, None, "")
            if reply.question == "By how much?"
        ]
        return found

    assert margin(1.0, 0.024) == (
        "PCIe is full at 2.4 % above line rate. The model's error would not change the answer to wire speed."
    )
    assert margin(0.8, 0.1, beyond_model_error=False) == (
        "PCIe is full at 10.0 % more; line rate is 25.0 % more. The model's error could change the answer to wire "
        "speed."
    )
    error = {"kind": "rate", "shared": ["core a"], "rows": 43, "sources": 2, "low": -0.12, "high": 0.25, "beyond": 4}
    assert margin(0.8, 0.1, beyond_model_error=None, model_errors=[error]).endswith(
        "By the model's error PCIe is full at 12 % less to 25 % more."
    )
    assert "A core is full at 10.0 % more; line rate" in margin(0.8, 0.1, limit="core")
    assert margin(0.02, 60.0, beyond_model_error=None) == (
        "Line rate is 50 times what was offered; PCIe is full at 61 times what was offered."
    )


def test_what_is_many_times_more_is_told_as_a_multiple_wherever_it_stands() -> None:
    summary = summaries.lossless()
    summary["verdict"] |= {"headroom": 68_606.47, "limit": "pcie", "beyond_model_error": None}
    summary["verdict"]["reasons"] = [
        "Nearest to its limit is PCIe: 6860747 % more could be offered; line rate is 40 % more."
    ]
    assert seen(summary, "reasons") == [
        "Nearest to its limit is PCIe: 68,608 times as much could be offered; line rate is 40 % more."
    ]
    for load, says in (
        (1.0, "PCIe is full at 68,607 times line rate"),
        (1e-4, "PCIe is full at 68,607 times what was"),
    ):
        told = {reply.question: reply.text for reply in questions.ten(summary | {"load": load}, "", None, "")}
        assert says in told["By how much?"]
        assert " %" not in told["By how much?"]
    metric = {"metric": "p99", "unit": "ns", "a": 1.0, "b": 68608.47, "change_pct": 6860747.0, "half_width_pct": 300.0}
    assert change_text(metric) == "68,608 times as much ± 3.0"  # type: ignore[arg-type]


def test_a_function_that_polices_is_told_to_carry_less_than_a_search_found() -> None:
    small = {"run.packets": 40_000, "run.warmup": 2000, "run.curve": [], "run.search_packets": 20_000}
    small |= {"run.search_resolution": 0.1, "function.upf.load.ues": 4, "function.upf.load.ambr_mbps": 100}
    found = wirespeed.run("upf", set=small, search="ndr")
    summary = found.summary
    assert summary["lost"] == 0
    at = next(t for t in summary["search"]["trials"] if t["pass"] and t["load"] == summary["search"]["load"])
    assert trial_rejected(at) > 0.1
    says = f"of {q.mpps(summary['search']['mpps'])} the function rejects {q.share(trial_rejected(at))}"
    carried = f"{q.mpps(at['carried_mpps'])} are carried"
    keeps = questions.ten(summary, found.scenario, None, "")[0].text
    printed = " ".join(terminal.text(terminal.run_summary(summary, found.scenario), Console(width=80)).split())
    shown = page(summary, found.scenario).replace("\u00a0", " ")
    for text in (keeps, printed, shown):
        assert says in text
        assert carried in text
    assert keeps.startswith("None was lost, but not all is carried.")
    # Without a search it is told of the run itself, and by why.
    alone = questions.ten({**summary, "search": None}, found.scenario, None, "")[0].text  # type: ignore[arg-type, typeddict-item]
    assert 'most for "rate exceeded", which polices' in alone
    # Where hardly any is rejected, nothing is said of it.
    assert rejected_text({**summary, "rejected": 100}) is None  # type: ignore[typeddict-item]


def test_how_sure_it_is_says_which_way_the_model_was_off() -> None:
    errors = [
        {"kind": "rate", "shared": ["core a"], "rows": 43, "sources": 2, "low": -0.01, "high": 0.35, "beyond": 4},
        {"kind": "latency", "shared": [], "rows": 0, "sources": 0, "low": None, "high": None},
        {"kind": "hits", "shared": ["core a"], "rows": 10, "sources": 1, "low": -0.28, "high": 0.09},
    ]
    told = {"status": "carries", "model_errors": errors, "limit": "pcie", "headroom": 0.5}
    replies = {reply.question: reply.text for reply in questions.ten(busy(0.5, verdict=told), SCENARIO, None, "")}
    assert replies["How sure is this?"] == (
        "By chance, at 95 %: mean sojourn from 4.108 to 4.133 µs and p99 from 8.94 to 9.19 µs. With the model's error "
        "the rate at which PCIe is full from 11.1 Mpps to 15.2 Mpps (predictions were 1 % too low to 35 % too high in "
        "nine in ten of 43 measurements of 2 sources). With the model's error DDIO hits from 91 % to 100 % "
        "(predictions were 28 points too low to 9 points too high in 10 measurements of 1 source). No server was "
        "measured that tells how far off latency is."
    )
    unsettled = busy(0.5, verdict=told, stationary=False)
    unsettled["sojourn_ns"]["p99_half_width"] = None
    (sure,) = [
        each.text for each in questions.ten(unsettled, SCENARIO, None, "") if each.question == "How sure is this?"
    ]
    assert sure.startswith(
        "By chance, at 95 %: mean sojourn from 4.108 to 4.133 µs. Too few packets bound p99. The run had not settled: "
    )
    # What got through of a run that lost, and a tail whose model was off by half to twice.
    errors[1] = {"kind": "latency", "shared": [], "rows": 3, "sources": 1, "low": -0.5, "high": 1.0}
    lossy = busy(0.99, verdict=told, lost=100, loss=0.1, loss_half_width=0.01)
    (sure,) = [each.text for each in questions.ten(lossy, SCENARIO, None, "") if each.question == "How sure is this?"]
    assert "loss from 9.00 % to 11.0 %." in sure
    assert "what gets through from 6.67 Mpps to 9.09 Mpps" in sure
    assert "p99 from 4.5 to 18.4 µs (predictions were 50 % too low to 100 % too high in 3 measurements" in sure
    assert (
        "checked by measured servers with its core a, latency by none. On another processor, NIC or driver: no, until"
        in replies["Does it hold for my server?"]
    )


def test_the_ring_that_overflows_is_named_and_whether_a_larger_one_helps() -> None:
    lossy = busy(0.99, lost=100, loss=0.1, drops={"no_rx_descriptor": 70, "nic_fifo_full": 30, "no_route": 900})
    lossy["verdict"] = {"limit": "core"}
    lead = "A receive ring of 1,024 descriptors overflows: 70 of 100 lost packets."
    assert rings(lossy) == f"{lead} A core is the limit."
    # 4.5 Mpps a core wait 200 us each: 900 packets, of 1,024.
    full = sample({"pcie": 100.0, "ring": 200_000.0}, count=1000)
    assert rings(lossy, full) == (
        f"{lead} The fullest is 88 % full on average: a larger one only delays that and adds wait. A core is the limit."
        " A shorter one (nic.rx_descriptors) keeps waits short and buffers in the LLC."
    )
    # With as much lost a ring that is never full is no better; with little lost its core keeps up, however busy it is.
    empty = sample({"pcie": 100.0, "ring": 1000.0})
    assert "a larger one only delays that and adds wait" in rings(lossy, empty)
    lossy["loss"] = 0.001
    assert rings(lossy, empty).startswith(
        f"{lead} The fullest is < 1 % full on average, so that bursts overflow it: a larger one takes more of them in."
    )
    # Nor are cores that never rest.
    for core in lossy["cores"]:
        core["busy"] = 0.999
    assert "a larger one only delays that" in rings(lossy, empty)
    for core in lossy["cores"]:
        core["busy"] = 0.99
    # A ring that has only begun to fill is no sign of bursts.
    assert "a larger one only delays that" in rings(lossy | {"ring_growth": 0.03}, empty)
    lossy["drops"]["nic_fifo_full"] = 80
    assert rings(lossy, full) == "The NIC's packet memory overflows: 80 of 100 lost packets. A core is the limit."
    lossy["drops"]["no_mbuf"] = 90
    assert rings(lossy).startswith("The pool of mbufs runs empty: 90 of 100")


HOT = {
    "core": 2,
    "receives": True,
    "cores": 4,
    "of_offered": 0.5,
    "of_lost": 1.0,
    "full": 0.97,
    "busy": 1.0,
    "others_busy": 0.3,
    "busy_if_even": 0.83,
    "even_mpps": 12.0,
    "text": "core 2 gets 50 % of the packets",
    "remedy": "the NIC's indirection table",
}


def uneven(**changes: Any) -> dict[str, Any]:
    """A run of four cores of which one gets half of the packets, is full, and loses a fifth of all."""
    found = busy(0.3, lost=200_000, loss=0.2, load=1.0, drops={"no_rx_descriptor": 200_000}, pcie={})
    found["verdict"] = {"limit": "core", "advice": []}
    found["machine"] = TWO | {"cores": 4}
    cool = found["cores"][0] | {"offered": 1000, "lost": 0, "packets": 1000, "ring_full": 0.01}
    hot = cool | {"offered": 3000, "lost": 1200, "packets": 1800, "ring_full": 0.97, "busy": 1.0}
    found["cores"] = [(hot if n == 2 else cool) | {"core": n} for n in range(4)]
    return found | {"hot_ring": HOT} | changes


def test_one_hot_ring_is_told_as_such_and_not_as_a_want_of_cores() -> None:
    told = uneven()
    of = "ore 2 gets 50 % of the packets."
    assert of in core(told)
    assert core(told).startswith("Little: one ring is hot, and no core but its own is short.")
    assert "Spread evenly, the 4 would carry up to 10.0 Mpps, where line rate ends" in core(told)
    assert core(told).endswith("by the NIC's indirection table.")
    assert "It is that of core 2: c" + of in rings(told)
    assert "It is 97 % full on average: no length helps" in rings(told)
    limit = next(each.text for each in questions.ten(told, SCENARIO, None, "") if each.question == "What limits it?")
    assert f"One ring is hot: c{of}" in limit
    drawn = page(told, SCENARIO)
    assert f"One ring is hot: c{of}".replace(" %", "\u00a0%") in drawn
    row = ["core 2", "50.0 %", "3,000", "1,200", "40.0 %", "97.0 %", "100 %"]
    cells = re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", drawn.replace("\u00a0", " "))
    assert row == cells[cells.index("core 2") :][: len(row)]
    printed = terminal.text(terminal.run_summary(told), Console(width=100, color_system=None))
    assert re.search(r"core 2 +50\.0 % +3\.00 k +1,200 +97\.0 % +100 %", printed), printed


def test_a_workers_hot_queue_is_no_ring_of_the_nic() -> None:
    told = uneven(hot_ring=HOT | {"receives": False, "text": "core 2 gets 50 %", "remedy": "what chooses a worker"})
    lead = "Little: one software queue is hot, and no core but its own is short. Core 2 gets 50 %."
    assert core(told).startswith(lead)
    assert core(told).endswith("by what chooses a worker.")
    # What overflows here are receive rings.
    assert "of core 2" not in rings(told)
    told["drops"] = {"queue_full": 200_000}
    assert rings(told).startswith("A software queue overflows: 200,000 of 200,000 lost packets. It is that of core 2: ")
    assert rings(told).endswith("no length helps, a spread over all does.")


def test_nothing_is_hot_that_the_summary_does_not_say_so_of() -> None:
    for told in (uneven(hot_ring=None), {name: of for name, of in uneven().items() if name != "hot_ring"}):
        assert "hot" not in core(told) + rings(told)
        assert "is hot" not in page(told, SCENARIO)
    # Nothing lost: no share of it.
    for each in told["cores"]:
        each["lost"] = 0
    assert [each.of_lost for each in summary.queue_shares(told)] == [0.0] * 4
    # What an older document does not tell is not told.
    for each in told["cores"]:
        del each["offered"]
    assert summary.queue_shares(told) == []


def test_stalls_of_a_core_are_no_instructions() -> None:
    stalled = busy(0.5, verdict={"limit": "core"})
    for each in stalled["cores"]:
        each["cycles"] = {"core": 60.0, "stall": 25.0, "doorbell": 5.0, "row_miss": 10.0}
    told = next(each.text for each in questions.ten(stalled, SCENARIO, None, "") if each.question == "What limits it?")
    assert (
        "60 % execute instructions, 30 % are stalls of branches, chains and doorbells; memory's share is 10 %" in told
    )


def test_rings_without_loss_are_told_by_what_they_held_and_by_stalls() -> None:
    found = sample({"pcie": 100.0, "ring": 500.0})
    told = rings(busy(0.5), found)
    # 10 Mpps times 50 ns; 500 ns at 100 cycles of 2 GHz a packet.
    assert "No ring overflows: the 2 receive rings of 1,024 descriptors hold 0.50 packets on average together" in told
    assert "the longest wait that was sampled, 500 ns, is that behind about 10 packets" in told
    assert "this run has none (machine.core.stalls)" in told
    stalls = {"longest_ns": 1e5, "packets": 800.0, "least_descriptors": 2048}
    assert "the least ring that survives it has 2,048" in rings(busy(0.5, stalls=stalls), found)
    assert "no ring survives it" in rings(busy(0.5, stalls=stalls | {"least_descriptors": None}), found)


def test_the_tail_is_what_the_slowest_hundredth_waits_for_and_others_do_not() -> None:
    found = sample({"pcie": 100.0, "ring": 1100.0})
    assert (found.packets, found.slow, found.slow_ns, found.mean_ns) == (1000, 10, 1200.0, 210.0)
    assert found.least_ns["ring"] == 100.0
    assert sum(found.slow_parts_ns.values()) == pytest.approx(found.slow_ns)
    summary = busy(0.5)
    assert questions.tail(summary, found) == (
        "Waiting in the RX ring (100 %) makes the slowest 1 % slower than the mean by 990 ns, 1.20 µs in their mean "
        "beside 210 ns (10 of 1,000 sampled packets)."
    )
    both = sample({"pcie": 600.0, "ring": 600.0})
    assert questions.tail(summary, both).startswith("PCIe transfer (50 %) and waiting in the RX ring (50 %) make the")
    # No tail: all wait for the same.
    flat = sample({"pcie": 101.0, "ring": 100.0})
    assert "the mean is 200 ns. Most of it is PCIe transfer (50 %)." in questions.tail(summary, flat)


def test_too_few_sampled_packets_tell_no_tail() -> None:
    columns = {name: pa.array([1.0] * 999 + [None] * 500) for name in ("at_ring_ns", "sojourn_ns", "core")}
    assert slowest(pa.table(columns)) is None
    assert slowest(pa.table({"packet": [1.0] * 5000})) is None
    assert questions.tail(busy(0.5), None) == ""


@pytest.mark.parametrize("name", summaries.CASES)
def test_strange_runs_are_answered_without_a_raw_value(name: str) -> None:
    for reply in questions.ten(summaries.CASES[name](), SCENARIO, None, ""):
        assert reply.text.endswith((".", ":"))
        assert re.findall(r"\b(?:nan|None|inf)\b|–", reply.text) == []


def test_a_run_answers_ten_questions_and_its_next_command_is_one() -> None:
    found = wirespeed.run(
        "forwarding",
        set={"run.packets": 20_000, "run.curve": [], "machine.cores": 1, "machine.core.frequency": "1 GHz"},
    )
    replies = questions.ten(found.summary, found.scenario, found.slowest(), "")
    assert len(replies) == 10
    by_question = {reply.question: reply for reply in replies}
    assert "of 20,000 packets" in by_question["Does it keep wire speed?"].text
    assert by_question["What do I type next?"].command == (
        "wirespeed run scenario.toml --set machine.cores=2 --out next"
    )
    # One share of memory, wherever it is told.
    memory = q.share(memory_share(found.summary), 0)
    assert f"memory's share is {memory}: " in by_question["What limits it?"].text
    assert f"memory's share is {memory}: cycles" in core_cycles_text(found.summary)
    told = found.summary["verdict"]["reasons"] + found.summary["verdict"]["details"]
    shown = [*seen(found.summary, "reasons"), *seen(found.summary, "details")]
    assert [each for each in told if each not in shown] == [each for each in told if "on a packet itself" in each]
    assert len(shown) == len(told) - 1


def test_ddio_is_told_in_time_with_the_command_that_measures_it() -> None:
    levels = [{"name": "DDIO", "hits": 60, "misses": 40, "hit_rate": 0.6}]
    summary = busy(0.8, levels=levels, attribution_ns={"dma_memory": 50.0, "pcie": 950.0})
    for each in summary["cores"]:
        each["cycles"] = {"core": 60.0, "llc": 20.0, "row_miss": 15.0, "bus": 5.0}
    (reply,) = [each for each in questions.ten(summary, SCENARIO, None, "") if each.question == "What is DDIO's share?"]
    # 20 of 100 cycles at 2 GHz.
    assert "Cores wait 10.0 ns a packet for DRAM, 20.0 % of their cycles, for packets and tables." in reply.text
    assert reply.text.startswith("Of the lines that the NIC writes, 60 % are in the LLC already. ")
    # Of packets that a core took: what is lost was never written.
    pushed = {**summary, "packets": 50, "taken_packets": 20, "dram": {"writes": 30}}
    (told,) = [each.text for each in questions.ten(pushed, SCENARIO, None, "") if "DDIO" in each.question]
    assert "in the LLC already; the rest is 2.00 lines a packet, beside 1.50 writes of DRAM for all reasons." in told
    assert reply.command.endswith("scenario.toml,machine.llc.io_ways=0")


def test_what_a_curve_has_shown_is_not_reckoned_otherwise() -> None:
    def told(question: str, **changes: Any) -> str:
        replies = questions.ten(busy(0.95, burst=2.0, **changes), SCENARIO, None, "")
        return next(reply.text for reply in replies if reply.question == question)

    def curve(*loads: float) -> list[dict[str, float]]:
        return [{"load": load, "carried_mpps": 20.0 * load, "loss": 0.0} for load in loads]

    # By how busy they are two cores end at 10.5 of 20 Mpps, at the earliest: bursts are short.
    margin, more = "By how much?", "What would one more core bring?"
    nearly = {"limit": "core", "headroom": 0.053}
    assert "5.3 % more, and later as bursts grow" in told(margin, verdict=nearly)
    shown = told(margin, verdict=nearly, curve=curve(0.6, 0.8))
    assert shown.startswith("At least 60.0 % more was carried without loss; line rate is 100 % more")
    whole = told(margin, verdict=nearly, curve=curve(0.6, 1.0))
    assert whole.startswith("Line rate is 100 % more, and was carried without loss")
    assert told(more, curve=curve(0.6, 1.0)).startswith("Nothing for the rate: the 2 cores carry line rate, 20.0 Mpps")
    assert "in place of 16.0 Mpps" not in told(more)
    # One that loses ends what is shown.
    lossy = [*curve(0.6), {"load": 1.0, "carried_mpps": 15.0, "loss": 0.25}]
    assert "was carried without loss; line rate" in told(margin, verdict=nearly, curve=lossy)


def test_a_yes_that_the_models_error_leaves_open_says_so() -> None:
    def told(high: float, headroom: float = 0.1) -> str:
        errors = [{"kind": "rate", "rows": 43, "sources": 2, "low": -0.01, "high": high, "shared": []}]
        verdict = {"status": "carries", "limit": "core", "headroom": headroom, "model_errors": errors}
        summary = busy(0.9, verdict=verdict, packets=1000, offered_gbps=50.0, line_rate_gbps=100.0)
        return questions.ten(summary, SCENARIO, None, "")[0].text

    # 11 Mpps in simulation, and predictions were up to 35 % too high.
    assert "a real one may end at 8.15 Mpps" in told(0.35)
    assert "in simulation" not in told(0.35, headroom=0.5)
    assert "Not at line rate, 20.0 Mpps, which was not offered: the 2 cores end at 11.1 Mpps." in told(0.05)


@pytest.mark.parametrize(
    ("gpu", "says"),
    [
        ({"attached": "discrete", "packets": 9}, "Not told: what the GPU's copies write is counted"),
        ({"attached": "integrated", "packets": 9}, "Of the lines that the NIC writes, 60 %"),
        (None, "Of the lines that the NIC writes, 60 %"),
    ],
)
def test_ddio_is_not_told_of_where_a_gpus_copies_are_counted_too(gpu: dict[str, Any] | None, says: str) -> None:
    levels = [{"name": "DDIO", "hits": 60, "misses": 40, "hit_rate": 0.6}]
    replies = questions.ten(busy(0.8, levels=levels, gpu=gpu), SCENARIO, None, "")
    (reply,) = [each for each in replies if each.question == "What is DDIO's share?"]
    assert reply.text.startswith(says)
    assert ("60 % are in the LLC already" in reply.text) == ("Not told" not in says)
    assert bool(reply.command) == reply.text.endswith(":")


def test_where_a_gpus_batches_make_most_of_the_delay_the_settings_are_named() -> None:
    few = {"run.packets": 5000, "run.warmup": 1000, "run.curve": [], "function.forward.prefixes": 1000}
    few |= {"machine.gpu.preset": "h100", "traffic.load": 0.05}
    slow = wirespeed.run("forwarding", set=few)
    told = gpu_waits_text(slow.summary)
    assert told is not None
    assert slow.summary["attribution_ns"]["gpu_fill"] > 0.5 * slow.summary["sojourn_ns"]["mean"]
    assert "machine.gpu.timeout" in told
    assert "machine.gpu.batch" in told
    answers = {reply.question: reply.text for reply in questions.ten(slow.summary, slow.scenario, slow.slowest(), "")}
    assert told in answers["Where does p99 come from?"]
    printed = " ".join(terminal.text(terminal.run_summary(slow.summary, slow.scenario), Console(width=80)).split())
    assert told in printed
    assert told in page(slow.summary, slow.scenario).replace("\u00a0", " ")
    # Batches that are soon full are no matter, as the settings that were named bring about.
    soon = wirespeed.run("forwarding", set=few | {"machine.gpu.batch": 16})
    assert gpu_waits_text(soon.summary) is None
    assert soon.summary["sojourn_ns"]["mean"] < slow.summary["sojourn_ns"]["mean"]
    # Where batches go full, it is their size alone.
    full = {**slow.summary, "gpu": {**slow.summary["gpu"], "late_batches": 0, "fill": 1.0}}
    assert "timeout" not in str(gpu_waits_text(full))  # type: ignore[arg-type]


def test_a_run_with_a_discrete_gpu_tells_no_share_of_ddio() -> None:
    few = {"run.packets": 3000, "run.warmup": 1000, "run.curve": [], "function.forward.prefixes": 1000}
    found = wirespeed.run("forwarding", set=few | {"machine.gpu.preset": "a100", "traffic.load": 0.1})
    replies = questions.ten(found.summary, found.scenario, found.slowest(), "")
    (reply,) = [each for each in replies if each.question == "What is DDIO's share?"]
    assert (reply.text.startswith("Not told: what the GPU's copies"), reply.command) == (True, "")


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({}, "wirespeed run my.toml --set a=1 --search ndr --out kept-next"),
        ({"search": {"kind": "ndr"}}, "wirespeed advise my.toml --set a=1 --out kept-next"),
        (
            {"verdict": {"advice": ["Try it (--set machine.cores=3 --set nic.burst=16)."]}},
            "wirespeed run my.toml --set a=1 --set machine.cores=3 --set nic.burst=16 --out kept-next",
        ),
        (
            {"verdict": {"advice": ["Hot ones (--set mempool.kind=lifo), or shorter rings (--set nic.burst=16)."]}},
            "wirespeed run my.toml --set a=1 --set mempool.kind=lifo --out kept-next",
        ),
        (
            {"verdict": {"advice": ["Larger pages (machine.iommu.page), or hot mbufs (--set mempool.kind=lifo)."]}},
            "wirespeed run my.toml --set a=1 --set mempool.kind=lifo --out kept-next",
        ),
        # What was set before is set anew, not twice.
        (
            {"verdict": {"advice": ["Try it (--set a=3 --set nic.burst=16)."]}},
            "wirespeed run my.toml --set a=3 --set nic.burst=16 --out kept-next",
        ),
        # What limits cannot be typed: what comes behind it does not limit.
        (
            {"verdict": {"advice": ["Try a faster link (nic.pcie.rate).", "Try hot ones (--set mempool.kind=lifo)."]}},
            "wirespeed advise my.toml --set a=1 --out kept-next",
        ),
    ],
)
def test_what_to_type_next_is_a_whole_command(changes: dict[str, Any], command: str) -> None:
    run, advise = (["wirespeed", name, "my.toml", "--set", "a=1"] for name in ("run", "advise"))
    summary = summaries.lossless(**{"verdict": {}, **changes})
    assert questions.to_type(summary, run, advise, "kept-next")[1] == command
    assert questions.to_type(summary, run, advise)[1] == command.removesuffix(" --out kept-next")


def test_what_is_reckoned_of_one_more_core_is_near_what_a_run_with_it_serves() -> None:
    settings = {"run.packets": 50_000, "run.curve": [], "traffic.load": 1.0, "machine.core.frequency": "1 GHz"}
    one, two = (wirespeed.run("forwarding", set=settings | {"machine.cores": n}) for n in (1, 2))
    reckoned = ceilings.of_cores(one.summary, ceilings.read_settings(one.scenario))
    assert reckoned is not None
    assert min(one.summary["lost"], two.summary["lost"]) > 0
    assert reckoned.with_one_more == pytest.approx(ceilings.served_mpps(two.summary), rel=0.05)


def test_losses_are_those_that_the_server_names() -> None:
    text = (Path(__file__).parents[2] / "crates/sim/src/server/mod.rs").read_text()
    assert sorted(LOSSES) == sorted(re.findall(r'Loss::\w+ => "(\w+)"', text))


def test_the_cache_command_names_every_hash_of_slices() -> None:
    text = (Path(__file__).parents[2] / "crates/machine/src/memory/llc.rs").read_text()
    words = re.findall(r'SliceHash::\w+ => "([\w-]+)"', text)
    named = re.search(r"hash=([\w, -]+?), ring", " ".join(cache._EPILOG.split()))
    assert named
    assert sorted(re.split(r", | or ", named[1])) == sorted(words)


def reply(summary: dict[str, Any], question: str, slow: Slowest | None = None) -> str:
    return {each.question: each.text for each in questions.ten(summary, SCENARIO, slow, "")}[question]


def test_of_a_pipeline_the_stage_that_limits_is_named_with_its_own_cycles() -> None:
    one = {"packets": 500, "packets_per_burst": 30.0, "cycles_per_packet": 100.0}
    receives = one | {"core": 0, "busy": 1.0, "receives": True, "cycles": {"core": 60.0, "dram_queue": 40.0}}
    works = one | {"core": 1, "busy": 0.17, "receives": False, "cycles": {"core": 90.0, "llc": 10.0}}
    verdict = {"status": "loses", "limit": "core", "model_errors": []}
    told = reply(busy(1.0, cores=[receives, works], verdict=verdict, lost=1), "What limits it?")
    assert told.startswith("A core that receives: the busiest is busy 100 % of the time, the busiest that works 17 %.")
    assert "60 % execute instructions; memory's share is 40 %: 40 % wait for DRAM, 0 % for the LLC" in told
    swapped = [receives | {"busy": 0.2}, works | {"busy": 0.9}]
    told = reply(busy(1.0, cores=swapped, verdict=verdict, lost=1), "What limits it?")
    assert told.startswith("A core that works: the busiest is busy 90 % of the time, the busiest that receives 20 %.")
    assert "10 % wait" not in told
    assert "0 % wait for DRAM, 10 % for the LLC" in told


def test_a_link_says_what_line_rate_would_take_of_it() -> None:
    verdict = {"status": "carries", "limit": "pcie", "headroom": 0.5, "model_errors": []}
    assert "Line rate would take more than it has." in reply(busy(0.1, verdict=verdict), "What limits it?")
    wider = {"to_host_link_gbps": 50.0, "from_host_link_gbps": 40.0, "rate_gbps": 125.0}
    assert reply(busy(0.1, verdict=verdict, pcie=wider), "What limits it?").endswith("Line rate would take 80 % of it.")
    assert "Line rate" not in reply(busy(0.1, verdict=verdict, lost=1), "What limits it?")


def test_rings_say_how_long_they_take_in_and_a_receiving_stage_how_full_it_is() -> None:
    # 10 Mpps on two rings of 1,024.
    assert "A ring holds what comes in 205 \u00b5s." in rings(busy(0.8))
    # The longest wait of 100 ns is behind two packets of 50 ns; a burst of 32 is worked on, 64 are to be filled in.
    assert "so that 128 descriptors would do here" in rings(busy(0.8), sample({"pcie": 100.0, "ring": 100.0}))
    few = busy(0.8, machine=TWO | {"rx_descriptors": 128})
    assert "would do here" not in rings(few, sample({"pcie": 100.0, "ring": 100.0}))
    one = {"packets": 500, "busy": 1.0, "cycles_per_packet": 100.0}
    stages = [one | {"core": 7, "receives": True}, one | {"core": 8, "receives": False}]
    full = {"loss": 0.5, "lost": 500, "drops": {"no_rx_descriptor": 500}, "attribution_ns": {"ring": 204_800.0}}
    told = rings(busy(1.0, cores=stages, **full), sample({"pcie": 100.0, "ring": 100.0}))
    assert "The fullest is 100 % full on average: a larger one only delays that and adds wait." in told


def test_ddio_says_what_is_found_later_and_sureness_what_had_not_settled() -> None:
    counts = {"DDIO": (25, 75), "LLC": (90, 10), "first touch": (49, 1), "DMA read": (50, 0)}
    found = [{"name": n, "hits": h, "misses": m, "hit_rate": h / (h + m)} for n, (h, m) in counts.items()]
    warmup = {"why": "The first 9 packets were cut as warm-up. Not settled: the sojourn."}
    summary = busy(0.1, levels=found, warmup=warmup)
    told = reply(summary, "What is DDIO's share?")
    assert "Cores wait for no DRAM: more ways for devices bring them nothing. 98 % of packets' lines are still" in told
    for each in summary["cores"]:
        each["cycles"] = {"core": 60.0, "row_miss": 40.0}
    told = reply(summary, "What is DDIO's share?")
    # One in ten of the lines that the LLC lacks is a packet's; 40 of 100 cycles wait for DRAM.
    assert "Packets that had left the LLC when a core first came take about 4.0 % of the cores' cycles: 98 %" in told
    assert (
        "In all cores wait 20.0 ns a packet for DRAM, 40.0 % of their cycles, the rest for tables and all else" in told
    )
    # A prefetch that comes first finds what a load would have.
    prefetched = {"name": "first prefetch", "hits": 31, "misses": 19, "hit_rate": 0.62}
    told = reply(summary | {"levels": [*found, prefetched]}, "What is DDIO's share?")
    assert "80 % of packets' lines are still cached when a core first comes" in told
    # Of a machine that counts no first touches nothing is said of them.
    older = reply(
        summary | {"levels": [each for each in found if each["name"] != "first touch"]}, "What is DDIO's share?"
    )
    assert "are still cached" not in older
    assert "of their cycles, for packets and tables." in older
    assert "Not settled when measuring began: the sojourn." in reply(summary, "How sure is this?")


def test_a_run_that_had_not_settled_is_first_run_longer() -> None:
    again, advise = ["wirespeed", "run", "my.toml", "--set", "run.packets=5"], ["wirespeed", "advise", "my.toml"]
    advice = {"verdict": {"advice": ["Shorter ones (--set nic.burst=16)."]}}
    longer = "wirespeed run my.toml --set run.packets=4000000"
    for open_still in ({"stationary": False}, {"warmup": {"why": "Cut. Not settled: packet buffers (1 of 9)."}}):
        unsettled = summaries.lossless(**advice, **open_still)
        assert questions.to_type(unsettled, again, advise) == (
            "The run had not settled: a longer one first.",
            longer,
        )
        # What loses has its reason, however long it runs.
        lossy = unsettled | {"lost": 5}
        assert questions.to_type(lossy, again, advise)[1].endswith("--set nic.burst=16")
    assert "nic.burst=16" in questions.to_type(summaries.lossless(**advice), again, advise)[1]
