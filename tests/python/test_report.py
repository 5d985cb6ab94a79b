"""The report and the notebook view: valid, offline, honest about what is strange."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import summaries
import wirespeed.summary
from wirespeed import quantities as q
from wirespeed import terminal
from wirespeed.report import charts, icicle, page, palette, path, stacked
from wirespeed.report.notebook import card
from wirespeed.slowest import Slowest
from wirespeed.summary import REASONS

SCENARIO = '[machine]\nname = "Xeon"\n# </pre><script>alert(1)</script>\n'
VOID = {"meta", "br", "link", "img", "input", "hr"}
LOADING = {"src", "href", "srcset", "data", "action", "poster", "xlink:href", "background"}


class Page(HTMLParser):
    """Reads a page and checks that its elements nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"left open: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("script", "style"):
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module", params=summaries.CASES)
def case(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param, page(summaries.CASES[request.param](), SCENARIO, "wirespeed run x.toml --out 'my results'")


def test_what_readers_ask_is_answered_below_the_key_numbers() -> None:
    words = Page(page(summaries.sound(), SCENARIO)).words
    order = [
        "9.07 µs",
        "questions",
        "Does it keep wire speed?",
        "What would one more core bring?",
        "Which ring overflows, and how long must it be?",
    ]
    places = [words.index(text) for text in order]
    assert places == sorted(places)
    assert "A receive ring overflows: 78,900 of 79,000 lost packets." in words
    # A run that measured nothing answers nothing.
    assert "Which ring overflows, and how long must it be?" not in Page(page(summaries.empty(), SCENARIO)).words


def test_the_page_nests_and_ids_are_unique(case: tuple[str, str]) -> None:
    ids = [value for _, name, value in Page(case[1]).attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_the_page_is_one_file_that_loads_nothing(case: tuple[str, str]) -> None:
    read = Page(case[1])
    # A link leads to a section of the page, which is there.
    links = [value for tag, name, value in read.attributes if (tag, name) == ("a", "href")]
    ids = {value for _, name, value in read.attributes if name == "id"}
    assert {link.removeprefix("#") for link in links} <= ids
    assert [a for a in read.attributes if a[1] in LOADING and a[0] != "a"] == []
    assert read.tags["link"] == read.tags["iframe"] == read.tags["img"] == 0
    assert "@import" not in case[1]
    assert re.findall(r"url\((?!#)", case[1]) == []
    assert re.findall(r"https?://(?!www\.w3\.org/)", case[1]) == []
    assert "default-src 'none'" in case[1]
    assert len(case[1].encode()) < 2_000_000


def test_names_are_never_markup(case: tuple[str, str]) -> None:
    read = Page(case[1])
    assert read.tags["script"] == 1
    assert "</pre><script>alert(1)</script>" in read.words
    if case[0] == "odd":
        assert "<script>alert('a very long name" in read.words


def test_no_raw_none_or_nan_reaches_the_reader(case: tuple[str, str]) -> None:
    assert re.findall(r"\b(?:nan|NaN|None|inf|Undefined|undefined)\b", Page(case[1]).words) == []


def test_the_verdict_and_key_numbers_come_first() -> None:
    words = Page(page(summaries.sound(), SCENARIO)).words
    order = [
        "Does not keep wire speed: 9.21 of 10.0 Gbps",
        "What to change",
        "9.07 µs",
        "Where the time goes",
        "Offered and carried over load",
        "How long packets take",
        "NDR search",
        "record length 70000 is beyond the snap length",
        "Run it again",
    ]
    places = [words.index(text) for text in order]
    assert places == sorted(places)


def test_a_search_has_the_rate_with_stalls_and_without() -> None:
    summary = summaries.sound(stalls={"p999_ns": 9_870.0, "delayed": 0.0123})
    summary["search"]["without_stalls"] = {"mpps": 13.9, "trial_s": 60.0, "stalls": 60.0, "bound": True}
    words = Page(page(summary, SCENARIO)).words
    assert "NDR without stalls 13.9 Mpps, with stalls 12.9 Mpps, bound by the ring" in words
    assert "99.9 % with stalls" in words
    assert "with stalls" not in Page(page(summaries.sound(), SCENARIO)).words


def test_a_partial_result_carries_a_banner_and_a_whole_one_none() -> None:
    assert 'class="banner"' in page(summaries.sound(partial=True), SCENARIO)
    assert 'class="banner"' not in page(summaries.sound(), SCENARIO)


def test_zero_loss_is_reported_with_its_bound() -> None:
    assert "none of 1,000,000, < 3.0e-6 at 95 %" in Page(page(summaries.lossless(), SCENARIO)).words


def test_without_a_curve_the_rates_are_drawn_over_time_and_without_both_not_at_all() -> None:
    over_time = page(summaries.lossless(), SCENARIO)
    assert "Offered and carried over time" in over_time
    assert "simulated time, ms" in over_time
    assert "Offered and carried" not in page(summaries.lossless(series=[]), SCENARIO)


def test_the_machine_is_drawn_over_time_where_that_was_measured() -> None:
    drawn = page(summaries.lossless(), SCENARIO)
    assert "The machine over time" in drawn
    assert all(title in drawn for title in ("busy, %", "in rings", "LLC hits, %", "DRAM, GB/s"))
    assert "The machine over time" not in page(summaries.sound(), SCENARIO)


def test_damage_of_traffic_and_table_is_shown_by_kind_and_notes_are_listed() -> None:
    words = Page(page(summaries.sound(), SCENARIO)).words
    assert "Damage in the input: 3 places" in words
    assert "Damage in the routing table: 1 place" in words
    assert "corrupt 1 17 line 2:" in words
    assert "checksum is 0 in 50 of 50" in words
    assert "No damage was found" in Page(page(summaries.lossless(), SCENARIO)).words


def test_every_chart_says_what_it_shows() -> None:
    charts = [a for a in Page(page(summaries.sound(), SCENARIO)).attributes if a[:2] == ("svg", "aria-label")]
    assert len(charts) == 3
    assert "99 % within 9.07 µs" in charts[-2][2] + charts[-1][2]


def test_how_to_run_again_names_the_command_seed_and_run() -> None:
    words = Page(page(summaries.sound(seed=77), SCENARIO, "wirespeed run a.toml --out 'my results'")).words
    assert "wirespeed run a.toml --out 'my results'" in words
    assert "wirespeed run scenario.toml --seed 77" in words
    assert "1f0c2b3a4d5e6f70" in words


def test_the_stacked_bar_is_complete_and_in_path_order() -> None:
    summary = summaries.odd()
    rows = stacked(summary)
    assert [row.name for row in rows] == ["all packets", *(c["name"] for c in summary["classes"])]
    place = list(REASONS)
    for row in rows:
        assert sum(part.share for part in row.parts) == pytest.approx(1.0)
        known = [place.index(part.reason) for part in row.parts if part.reason in REASONS]
        assert known == sorted(known)
        assert sum(piece.drawn for piece in row.pieces) == pytest.approx(1.0)
        assert [part for piece in row.pieces for part in piece.parts] == list(row.parts)
    assert rows[0].parts[-1].reason == "quantum_foam"
    assert max(row.width for row in rows) == 1.0


def test_a_link_that_takes_nearly_all_is_drawn_short_and_all_else_to_one_scale() -> None:
    summary = summaries.sound()
    summary["attribution_ns"] = {"pcie": 1700.0, "ring": 30.0, "core": 60.0, "llc": 10.0}
    summary["classes"] = [
        {
            "name": "<=64 B",
            "packets": 9,
            "sojourn_ns": {"mean": 1900.0},
            "attribution_ns": {"pcie": 1700.0, "ring": 200.0},
        }
    ]
    every, small = stacked(summary)
    # 100 ns of the one are half as long as 200 ns of the other, whatever the link takes.
    assert small.width == 1.0
    rest = [row.width * (1 - row.pieces[0].drawn) for row in (every, small)]
    assert rest[0] / rest[1] == pytest.approx(0.5)
    assert every.pieces[1].drawn / every.pieces[2].drawn == pytest.approx(0.5)
    assert every.width * every.pieces[0].drawn == pytest.approx(small.width * small.pieces[0].drawn)
    words = page(summary, SCENARIO)
    assert "hatched, torn, 1.70 µs) is drawn short" in words
    assert words.count('class="folded torn"') == 2
    # What one has more of the link is to scale, too: the slower one is the longer one.
    summary["classes"][0]["attribution_ns"]["pcie"] = 1500.0
    every, small = stacked(summary)
    assert (every.width, small.width) == (1.0, pytest.approx(0.14 + 0.86 * 200 / 300))
    # Where it is no more than half, nothing is.
    summary["attribution_ns"]["pcie"] = 100.0
    assert 'class="folded' not in page(summary, SCENARIO)
    row = stacked(summary)[0]
    assert [part.share for part in row.parts] == [piece.drawn for piece in row.pieces]


def test_parts_that_are_thinner_than_a_line_are_drawn_as_one_with_their_neighbours() -> None:
    thin = {"core": 2.0, "l1": 1.0, "l2": 1.5}
    summary = summaries.sound(attribution_ns={"ring": 1500.0} | thin | {"row_miss": 500.0, "tx_queue": 1.0}, classes=[])
    (row,) = stacked(summary)
    assert [[part.reason for part in piece.parts] for piece in row.pieces][:2] == [["ring"], ["core", "l1", "l2"]]
    whole = sum(part.ns for part in row.parts)
    assert row.pieces[1].drawn == pytest.approx(4.5 / whole)
    assert row.pieces[1].most.reason == "core"
    drawn = page(summary, SCENARIO)
    assert "L1" in drawn.partition('<div class="bar"')[2].partition("</div>")[0], "each is told where a pointer rests"


def test_the_link_has_a_picture_of_both_ways_and_says_which_is_fuller() -> None:
    ways = {"to_host_link_gbps": 90.0, "from_host_link_gbps": 30.0, "to_host_gbps": 80.0, "from_host_gbps": 20.0}
    found = summaries.sound(pcie=ways | {"rate_gbps": 120.0}, attribution_ns={"pcie": 900.0, "pcie_queue": 40.0})
    words = Page(page(found, SCENARIO)).words
    assert "towards the host 75.0 % 90.0 of 120 Gbps, of which 10.0 headers and framing" in words
    assert "from the host 25.0 %" in words
    assert "The fuller way is that towards the host. A packet waits 40.0 ns for others on the link" in words
    assert 'id="pcie"' not in page(summaries.sound(pcie={}), SCENARIO)


def test_instructions_and_tables_are_told_with_where_they_come_from() -> None:
    told = "What instructions take is their number times 0.33 cycles"
    words = Page(page(summaries.sound(), SCENARIO, work=told, tables=[("rules", "1,000 (made)")])).words
    assert told in words
    assert "rules 1,000 (made)" in words


def test_a_cores_cycles_are_told_of_a_packet_that_it_worked_on() -> None:
    summary = summaries.sound()
    words = Page(page(summary, SCENARIO)).words
    # Whatever was lost before or behind them.
    assert "241 cycles and 171 instructions a packet; memory's share is 42 %: cycles that wait for LLC, other" in words
    assert "The busiest core, 0, is busy 100 % of the time." in words
    assert "1 more 0.200 cycles" in words
    # A receiving core and a working one, of which the second has half of the packets.
    summary["cores"] = [
        summary["cores"][0] | {"receives": True, "packets": 1_000, "cycles": {"core": 100.0}},
        summary["cores"][1] | {"receives": False, "packets": 500, "cycles": {"core": 300.0}},
    ]
    assert "400 cycles and 342 instructions a packet; memory's share is 0 %" in Page(page(summary, SCENARIO)).words
    for core in summary["cores"]:
        del core["cycles"]
    assert "Where a core's cycles go" not in Page(page(summary, SCENARIO)).words


def test_the_path_has_five_stops_and_tells_apart_what_an_idle_link_takes() -> None:
    link = {"nic": 100.0, "pcie": 1700.0, "dma_memory": 50.0}
    summary = summaries.sound(attribution_ns=link | {"ring": 30.0, "core": 60.0, "llc": 10.0})
    found = path.path(summary, None)
    assert [(stop.name, stop.ns, stop.idle_ns) for stop in found] == [
        ("NIC", 100.0, 0.0),
        ("PCIe and DMA", 1750.0, 1700.0),
        ("ring", 30.0, 0.0),
        ("core", 70.0, 0.0),
        ("TX", 0.0, 0.0),
    ]
    assert sum(stop.share for stop in found) == pytest.approx(1.0)
    least = {"nic": 100.0, "pcie": 1630.0, "ring": 5.0, "core": 40.0}
    slowly = {"pcie": 3500.0, "llc": 20.0, "core": 60.0}
    slow = Slowest(1000, 10, 1900.0, 4000.0, dict.fromkeys(slowly, 10.0), slowly, least, 50.0, {0: 5.0})
    nic, pcie, ring, core, _ = path.path(summary, slow)
    assert (nic.idle_ns, pcie.idle_ns, ring.idle_ns) == (100.0, 1700.0, 0.0)
    # 50 ns of waits for memory are drawn to the scale of 70 ns of a core.
    assert nic.drawn == 0
    assert (pcie.drawn, core.drawn) == (50 / 70, 1.0)
    assert (nic.folded, pcie.folded, ring.folded) == (True, True, False)
    # Beside waits that are longer by far it is drawn like all else: short it would look longer than it is.
    over = path.path(summary | {"attribution_ns": link | {"ring": 50_000.0, "core": 60.0}}, slow)
    assert [stop.folded for stop in over] == [False] * 5
    assert [stop.drawn for stop in over[:3]] == [100 / 50_000, 1750 / 50_000, 1.0]
    told = Page(page(summary | {"attribution_ns": link | {"ring": 50_000.0}, "classes": []}, SCENARIO)).words
    assert "drawn short" not in told
    assert (pcie.slow_ns, core.slow_ns) == (3500.0, 80.0)
    words = Page(page(summary, SCENARIO, slow=slow)).words
    # The same number as in the bar below, whatever the least of a sample was.
    assert "1.70 µs idle, drawn short, 50.0 ns of waits" in words
    assert "PCIe transfer 1.70 µs" in words
    assert "most: executing instructions, 60.0 ns" in words
    assert "The path of a packet" not in Page(page(summaries.sound(attribution_ns={}), SCENARIO)).words


def test_an_icicle_divides_a_packets_cycles_row_by_row() -> None:
    summary = summaries.sound()
    cells = icicle.icicle(summary)
    assert [(cell.row, cell.label, round(cell.cycles, 1)) for cell in cells] == [
        (0, "cycles a packet", 240.7),
        (1, "instructions and stalls", 140.0),
        (2, "executing instructions", 140.0),
        (1, "L1, L2 and TLB", 0.2),
        (2, "L2 hit", 0.2),
        (1, "LLC and other cores", 60.5),
        (2, "LLC hit or lookup", 60.5),
        (1, "DRAM", 40.0),
        (2, "DRAM row miss", 40.0),
    ]
    for row in (0, 1, 2):
        assert sum(cell.width for cell in cells if cell.row == row) == pytest.approx(1.0)
    # A cell lies below the one that it divides.
    assert [cell.left for cell in cells if cell.row == 1] == [cell.left for cell in cells if cell.row == 2]
    assert page(summary, SCENARIO).count('class="cell') == len(cells)
    for each in summary["cores"]:
        del each["cycles"]
    assert icicle.icicle(summary) == []


def test_an_icicle_has_a_row_of_stages_or_of_a_chains_functions() -> None:
    summary = summaries.sound()
    core = summary["cores"][0] | {"packets": 1_000, "instructions_per_packet": 200.0, "cycles": {"core": 100.0}}
    summary["cores"] = [core]
    summary["members"] = [{"name": name, "instructions": n} for name, n in (("check", 40_000), ("nat", 120_000))]
    told = [(cell.label, round(cell.cycles)) for cell in icicle.icicle(summary) if cell.row == 2]
    assert told == [("check", 20), ("nat", 60), ("driver and the rest", 20)]
    # What stalls a core is no function's instructions, and what it waits for a doorbell is a device's.
    summary["cores"] = [core | {"cycles": {"core": 100.0, "stall": 30.0, "doorbell": 7.0}}]
    told = [(cell.label, round(cell.cycles)) for cell in icicle.icicle(summary) if cell.row == 2]
    assert told == [("check", 20), ("nat", 60), ("driver and the rest", 20), ("stall", 30), ("doorbell", 7)]
    summary["cores"] = [core | {"receives": True}, core | {"receives": False, "cycles": {"core": 300.0}}]
    told = [(cell.label, round(cell.cycles)) for cell in icicle.icicle(summary) if cell.row == 1]
    assert told == [("receiving core", 100), ("working core", 300)]


def test_what_is_not_known_is_left_out_and_not_called_none(case: tuple[str, str]) -> None:
    assert re.findall(r"\b(?:nan|None)\b", Page(case[1]).words) == []


@pytest.mark.parametrize("name", summaries.CASES)
def test_the_notebook_view_is_a_small_fragment_without_script(name: str) -> None:
    html = card(summaries.CASES[name]())
    read = Page(html)
    assert read.tags["script"] == read.tags["style"] == 0
    assert len(html) < 20_000
    assert re.findall(r"\b(?:nan|None)\b", read.words) == []


@pytest.mark.parametrize("name", summaries.CASES)
def test_a_browser_opens_the_page_without_an_error(name: str, tmp_path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed: the page's script is not run")
    file = tmp_path / "report.html"
    file.write_text(page(summaries.CASES[name](), SCENARIO, "wirespeed run x"), encoding="utf-8")
    quiet = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
    ran = subprocess.run(
        [
            *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-sync", "--enable-logging=stderr"),
            *(*quiet, f"--user-data-dir={tmp_path / 'profile'}", "--window-size=420,900", "--dump-dom", file.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert [line for line in ran.stderr.splitlines() if ":CONSOLE" in line] == []
    # The script has run to its end: it shows the buttons that the page hides where scripts are off.
    assert re.search(r'<button type="button" data-copy="replay">Copy</button>', ran.stdout)


def test_the_policy_is_drawn_state_by_state() -> None:
    summary = summaries.lossless()
    intervals = [
        {"at_ns": 1e5 * (at + 1), "io_ways": 2 + at // 4, "llc_bytes": [1 << 20, 1 << 20, 0, 0], "state": state}
        for at, state in enumerate(["no bottleneck"] * 3 + ["DDIO bottleneck"] * 6 + ["balance"] * 3)
    ]
    summary["policy"] = {"kind": "allocator", "changes": 2, "io_ways": 4, "ways": 11, "intervals": intervals}
    drawn = page(summary, SCENARIO)
    assert "States of the allocator, ways of devices and occupancy" in drawn
    assert all(state in drawn for state in ("no bottleneck", "DDIO bottleneck", "balance"))
    # A state that was never entered is no part of the legend.
    assert "core bottleneck" not in drawn
    for interval in intervals:
        interval["state"] = None
    drawn = page(summary, SCENARIO)
    assert "Ways of devices and occupancy" in drawn
    assert "bottleneck" not in drawn


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (0, "The policy (allocator) changed nothing: devices have 4 of 11 ways at the end."),
        (1, "The policy (allocator) changed the LLC's ways once: devices have 4 of 11 ways at the end."),
        (9, "The policy (allocator) changed the LLC's ways 9 times: devices have 4 of 11 ways at the end."),
    ],
)
def test_what_a_policy_did_stands_below_the_verdict(changes: int, says: str) -> None:
    summary = summaries.lossless(policy={"kind": "allocator", "changes": changes, "io_ways": 4, "ways": 11})
    assert says in Page(page(summary, SCENARIO)).words.replace("\u00a0", " ")
    printed = terminal.text(terminal.run_summary(summary), Console(file=io.StringIO(), width=99, color_system=None))
    assert says in [line.strip() for line in printed.splitlines()[:4]]
    assert wirespeed.summary.policy_text(summaries.lossless()) is None


def test_what_flow_tables_knew_is_shown() -> None:
    summary = summaries.lossless()
    assert "Flow tables" not in page(summary, SCENARIO)
    summary["flow_table"] = {
        "flows_per_core": 16384,
        "hits": 915,
        "misses": 85,
        "stale": 12,
        "evictions": 34,
        "hit_rate": 0.915,
    }
    drawn = page(summary, SCENARIO)
    assert "Flow tables" in drawn
    assert "91.5 % of packets are of a known flow" in drawn
    assert "12 came after a change of their session, 34 flows had to leave" in drawn


def test_neighbours_and_the_states_of_mbufs_are_shown() -> None:
    summary = summaries.lossless()
    assert "Mbufs over time" not in page(summary, SCENARIO)
    assert "Neighbours" not in page(summary, SCENARIO)
    for place, interval in enumerate(summary["series"]):
        interval["mbufs_descriptors"], interval["mbufs_free"] = 1024.0, 3000.0 - place
        interval["mbufs_queued"], interval["mbufs_sending"] = 0.0, 72.0 + place
    summary["mempool"] = {"size": 4096, "starved": False, "rx_nombuf": 0}
    summary["neighbours"] = [{"name": "smf", "cores": 2, "references_per_s": 1.5e6, "llc_miss_rate": 0.25}]
    summary["llc_bytes"] = {"devices": 2 << 20, "receiving": 1 << 20, "working": 0, "others": 1 << 19}
    drawn = page(summary, SCENARIO)
    assert "Mbufs over time" in drawn
    assert "with cores, or sent and not freed" in drawn
    # Where no mbuf ever is is no part of the picture.
    assert '"queued"' not in drawn
    assert "1.50 M references a second from 2 cores" in drawn
    assert "others 0.500 MiB" in drawn
    assert "working 0" not in drawn


def test_banks_of_dram_are_a_row_a_channel_and_the_busiest_is_named() -> None:
    summary = summaries.sound()
    met = [[1, 2, 3]] * 7 + [[0, 0, 30]]
    load = {"bursts": 1, "data": 0.25, "idle": 0.5}
    times = dict.fromkeys(("mean", "p50", "p99", "p999"), 50.0)
    said = dict.fromkeys(("map", "order", "writes", "page", "refresh"), "some")
    found: Any = {"read_latency_ns": times, "links": None, "banks": met, "channels": [load, load | {"data": 0.098}]}
    summary["dram"]["controllers"] = {**said, **found}
    drawn = page(summary, SCENARIO)
    assert "Requests by bank of 2 channels of DRAM" in drawn
    assert "channel 1, bank 3: 0 row hits, 0 misses, 30 conflicts" in drawn
    assert "9 on average, the busiest, bank 3 of channel 1, 233 % more than that" in drawn
    assert "Data buses carried data for 9.8 % to 25.0 % of the time" in drawn
    for none in ({"banks": met[:1], "channels": [load]}, {"banks": met, "channels": []}):
        summary["dram"]["controllers"].update(none)
        assert "Requests by bank" not in page(summary, SCENARIO)


def test_every_reason_has_a_colour_of_its_own() -> None:
    drawn = [palette.colour(reason) for reason in REASONS]
    assert palette.colour("what nobody knows") not in drawn
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("reason", REASONS)
def test_words_on_a_reason_can_be_read(reason: str) -> None:
    behind, words = palette.luminance(palette.colour(reason)), {"#fff": 1.0, "#111": 0.0056}[palette.ink(reason)]
    dark, bright = sorted((behind, words))
    assert (bright + 0.05) / (dark + 0.05) > 4.5


def test_an_interval_that_is_cut_short_does_not_ruin_the_axis() -> None:
    summary = summaries.lossless()
    last = summary["series"][-1]
    tiny = {**last, "start_ns": last["start_ns"] + last["width_ns"], "width_ns": 0.05, "offered_mpps": 20_000.0}
    summary["series"].append(tiny)
    drawn = charts.rate_over_time(summary["series"])
    assert drawn is not None
    assert max(float(label.replace(",", "")) for label in re.findall(r">([\d,.]+)</text>", drawn.svg())) < 100


def test_rings_that_run_dry_after_the_last_packet_are_not_drawn() -> None:
    summary = summaries.lossless()
    drawn = charts.machine_over_time(summary["series"])
    last = summary["series"][-1]
    empty = {**last, "offered_mpps": 0.0, "core_busy": 0.0, "start_ns": last["start_ns"] + last["width_ns"]}
    cut = {**empty, "width_ns": 0.0, "offered_mpps": None, "carried_mpps": None}
    assert charts.machine_over_time([*summary["series"], empty, cut]) == drawn
    # Between packets nothing comes for a while: that is the traffic, and drawn.
    first = {**summary["series"][0], "offered_mpps": 0.0}
    assert charts.machine_over_time([first, *summary["series"][1:]]) == drawn


def test_the_curve_says_how_many_packets_a_point_stands_for() -> None:
    summary = summaries.sound()
    without = page(summary, SCENARIO)
    assert "go on from one warm machine" not in without
    for point in summary["curve"]:
        point["packets"] = 50_000
    says = "All points go on from one warm machine, 50,000 packets each: where none is lost, the loss is below"
    assert f"{says} 6.0e-5 at 95 %." in Page(page(summary, SCENARIO)).words
    for point in summary["curve"]:
        point |= {"ring_growth": 0.0, "least_ring_growth": 0.02}
    words = Page(page(summary, SCENARIO)).words
    assert "where none is lost and no ring fills, the loss is below 6.0e-5" in words
    assert "An overload of less than 2.0 % of what comes to a core would not show." in words
    summary["curve"][0]["packets"] = 20_000
    assert "one warm machine, 20,000 to 50,000 packets each" in page(summary, SCENARIO)
    # One that was stopped before it measured says nothing of a loss.
    summary["curve"][0]["packets"] = 0
    assert "one warm machine, 50,000 packets each" in page(summary, SCENARIO)


def test_without_drops_there_is_a_sentence_and_no_section() -> None:
    nothing = summaries.lossless(drops={"no_rx_descriptor": 0, "ttl_expired": 0})
    assert "Drops by reason" not in page(nothing, SCENARIO)
    assert "No packet was dropped." in page(nothing, SCENARIO)
    assert "Drops by reason" in page(summaries.sound(), SCENARIO)


def _carried(load: float) -> list[dict[str, float]]:
    return [{"load": load, "loss": 0.0, "carried_mpps": 14.88 * load, "offered_mpps": 14.88 * load}]


@pytest.mark.parametrize(
    ("changes", "status", "look"),
    [
        ({"offered_gbps": 10.0}, "line_rate", ("✓", "keeps", "#0b9a6b")),
        # Part of line rate says neither yes nor no, but where a curve went on to line rate.
        ({}, "carries", ("~", "open", "#b98a12")),
        ({"curve": _carried(1.0)}, "carries", ("✓", "keeps", "#0b9a6b")),
        ({"curve": _carried(0.6)}, "carries", ("~", "open", "#b98a12")),
        ({"rejected": 300_000}, "rejects", ("!", "open", "#b98a12")),
        ({"partial": True}, "partial", ("!", "open", "#b98a12")),
        ({"lost": 5}, "loses", ("✗", "fails", "#d0463b")),
        ({"packets": 0}, None, ("?", "open", "#b98a12")),
        # What the document says goes before what is reckoned from its numbers.
        ({"verdict": {"status": "rejects", "headline": "x"}}, "rejects", ("!", "open", "#b98a12")),
    ],
)
def test_the_mark_follows_the_status_everywhere(changes: dict, status: str | None, look: tuple[str, str, str]) -> None:
    summary = summaries.lossless(line_rate_gbps=10.0)
    summary["verdict"].pop("status")
    summary |= changes
    assert wirespeed.summary.status(summary) == status
    symbol, box, edge = look
    drawn, noted = page(summary, SCENARIO), card(summary)
    assert f'<header class="verdict {box}">' in drawn
    assert f'<span class="mark" aria-hidden="true">{symbol}</span>' in drawn
    assert f"border-left:4px solid {edge}" in noted
    printed = terminal.text(terminal.run_summary(summary), Console(file=io.StringIO(), width=80, color_system=None))
    assert printed.startswith(f"{symbol} ")


def test_an_interval_that_is_not_even_has_both_its_sides() -> None:
    summary = summaries.lossless()
    summary["sojourn_ns"] |= {"p50_low": 3868.0, "p50_high": 3878.0, "p50": 3873.0}
    summary["sojourn_ns"] |= {"p99": 12_300.0, "p99_low": 11_900.0, "p99_high": 14_200.0, "p99_half_width": 1900.0}
    drawn = page(summary, SCENARIO).replace("\u00a0", " ")
    assert "p99 (-0.4, +1.9 µs)" in drawn
    assert "p50 ± 5.00 ns" in drawn
    printed = terminal.text(terminal.run_summary(summary, whole=False), Console(width=80, color_system=None))
    assert "p99 12.3 µs (-0.4, +1.9 µs)" in " ".join(printed.split())


def test_what_l2_misses_beyond_the_llcs_lookups_is_said_to_come_from_other_cores() -> None:
    summary = summaries.lossless()
    summary["levels"][1] |= {"misses": 1_000_000}
    said = "L2 misses 1.00 M lines, the LLC hits or misses 700 k: the other 30.0 % came from other cores' caches."
    assert said in Page(page(summary, SCENARIO)).words.replace("\u00a0", " ")
    assert said in " ".join(terminal.text(terminal.run_summary(summary), Console(width=100, color_system=None)).split())
    # As many of both need no words.
    summary["levels"][1]["misses"] = 700_000
    assert "other cores' caches" not in Page(page(summary, SCENARIO)).words


def test_line_rate_is_said_to_be_that_of_a_port() -> None:
    assert "Line rate is that of one port, 10.0 Gbps." in page(summaries.lossless(), SCENARIO)
    assert "one port" not in page(summaries.minimal(), SCENARIO)


def test_a_machine_without_io_ways_has_no_ddio() -> None:
    summary = summaries.sound()
    assert "DDIO" in [level["name"] for level in wirespeed.summary.levels(summary)]
    assert "written in place" in page(summary, SCENARIO)
    summary["machine"]["io_ways"] = 0
    assert "written in place" not in page(summary, SCENARIO)
    printed = terminal.text(terminal.run_summary(summary), Console(file=io.StringIO(), width=80, color_system=None))
    assert "DDIO" not in printed


def test_a_point_whose_ring_fills_is_none_without_loss() -> None:
    points = [{"load": load, "loss": 0.0, "carried_mpps": 10 * load, "ring_growth": 0.0} for load in (0.6, 0.8)]
    points[1]["ring_growth"] = 0.06
    found = summaries.lossless(curve=points)
    assert wirespeed.summary.curve_text(found) == (
        "Without loss up to 60.0 % of line rate (6.00 Mpps); at 80.0 % of it a ring fills by 6.0 % of what comes to "
        "its core."
    )
    found["curve"][0]["ring_growth"] = 0.01
    assert wirespeed.summary.curve_text(found) == ("A ring fills at the least load that was tried, 60 % of line rate.")
    assert wirespeed.summary.proven(found) is None


@pytest.mark.parametrize(
    ("losses", "says"),
    [
        ([0.0, 0.0, 0.0], "Without loss up to 75.0 % of line rate (7.50 Mpps), the highest load that was tried."),
        ([0.0, 0.0, 0.031], "Without loss up to 50.0 % of line rate (5.00 Mpps); at 75.0 % of it 3.10 % are lost."),
        ([0.01, 0.0, 0.0], "Packets are lost at every load that was tried, from 25 % of line rate on."),
        ([], None),
    ],
)
def test_how_far_the_load_could_go_stands_below_the_verdict(losses: list[float], says: str | None) -> None:
    curve = [
        {"load": 0.25 * (i + 1), "loss": loss, "offered_mpps": 2.5 * (i + 1), "carried_mpps": 2.5 * (i + 1)}
        for i, loss in enumerate(losses)
    ]
    summary = summaries.lossless(curve=curve)
    assert wirespeed.summary.curve_text(summary) == says
    if says is not None:
        assert f'<p class="reach">{q.unbroken(says)}</p>' in page(summary, SCENARIO)
        assert says in card(summary)
        printed = terminal.text(terminal.run_summary(summary), Console(file=io.StringIO(), width=99, color_system=None))
        assert printed.splitlines()[1].strip() == says


def test_a_browser_is_told_to_run_the_reports_own_script_alone() -> None:
    document = page(summaries.lossless(name="</title><script>alert(1)</script>"), "seed = 1\n")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', document)
    scripts = re.findall(r"<script>(.*?)</script>", document, re.DOTALL)
    assert len(scripts) == 1
    allowed = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert policy.endswith(f"script-src 'sha256-{allowed}'")


def test_a_rate_without_loss_above_what_an_overload_carries_is_not_left_alone() -> None:
    points: Any = [
        {"load": 0.6, "loss": 0.0, "carried_mpps": 4.92},
        {"load": 0.7, "loss": 0.1, "carried_mpps": 4.9},
    ]
    summary = summaries.lossless(curve=points, lost=9, carried_mpps=4.9, load=0.9)
    told = wirespeed.summary.curve_text(summary)
    assert told is not None
    assert told.endswith("This run carries 4.90 Mpps: at more a longer run may lose, once its rings are full.")
    for other in ({"carried_mpps": 5.0}, {"lost": 0}, {"load": 0.5}):
        assert "a longer run may lose" not in str(wirespeed.summary.curve_text({**summary, **other}))
