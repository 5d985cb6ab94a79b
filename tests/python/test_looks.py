"""Every page as it is seen: on a telephone, in half a window and on a screen, light and dark.

A browser measures what a reader would meet: text below 12 px, a contrast below 4.5, words that are cut, that overlap or
that leave their chart, and a page that is wider than its window (`looking.js`).
"""

from __future__ import annotations

import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

import browsing
import summaries
import wirespeed
from wirespeed.advise import techniques
from wirespeed.explore import runs
from wirespeed.explore.place import Given
from wirespeed.explore.server import Server
from wirespeed.explore.talk import Talk
from wirespeed.report import page as report

pytestmark = pytest.mark.skipif(browsing.NAME is None, reason="chromium is not installed: pages are not looked at")

FEW: Final = ["function.forward.prefixes=1000", "run.packets=4000", "run.warmup=2000"]
# A small pool and short rings: full soon, and lossy soon.
LOSSY: Final = [
    *(FEW[0], FEW[2], "machine.cores=1", "traffic.profile=min64", "nic.rx_descriptors=256", "nic.tx_descriptors=256"),
    *("mempool.cache=64", "nic.fifo=32 KiB"),
]
NO_CURVE: Final = [*FEW, "run.curve=[]"]
SCENARIO: Final = f'seed = 1\n[traffic]\nprofile = "isp"  # {"as long as comments of shipped machines are " * 3}\n'
RUNS: Final[Mapping[str, tuple[str, list[str]]]] = {
    "policy": ("upf-pipeline", ["policy.kind=allocator", "function.upf.load.ues=500", *FEW[1:]]),
    "GPU": ("forwarding", ["machine.gpu.preset=h100", *FEW]),
    "copies": ("vhost", ["machine.copy_table={}", *FEW]),
    "sample": ("forwarding", [*FEW[:1], "run.packets=90000", "run.sampling.windows=30"]),
    "chain": ("router-chain", FEW[1:]),
    "search": ("forwarding-one-core", [*NO_CURVE, "run.search=ndr", "run.search_packets=3000"]),
}
WAYS: Final = "forwarding,machine.llc.core_ways=2"
STUDIES: Final[Mapping[str, Sequence[str]]] = {
    "comparison.html": ("compare", "forwarding", WAYS, "--fail-if", "p99 > +5%"),
    "comparisons/comparison.html": ("compare", "forwarding", WAYS, "forwarding,machine.cores=2"),
    "sweep.html": ("sweep", "forwarding", "--vary", "machine.llc.core_ways=2,11", "--vary", "machine.cores=1,2"),
    "size.html": ("size", "forwarding", "--target", "30 Mpps", "--packets", "4000"),
    "advice.html": ("advise", "forwarding", "--packets", "4000"),
    "tuning.html": ("tune", "forwarding-one-core", "--knob", "nic.burst=8,32", "--evaluations", "4", "--grid"),
    "lives.html": ("run", "forwarding-one-core", "--set", "run.trace={slowest=5, losses=1}", "--trace", "lives.json"),
}
# How many packets and how long a curve these make is theirs to say.
OWN_PACKETS: Final = ("size", "advise")
TRIED: Final = frozenset({"short_rings", "hot_mbufs", "core"})


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browsing.Chromium]:
    with browsing.Chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def seen(chromium: browsing.Chromium, url: str, until: str = "document.readyState === 'complete'") -> list[str]:
    """What hinders a reader of a page, in any window."""
    found = []
    for width in browsing.WIDTHS:
        for scheme in ("light", "dark"):
            chromium.opened(url, width, scheme, until)
            found += [f"{width} px, {scheme}: {line}" for line in chromium.hindrances()]
    return found


@pytest.mark.parametrize("name", summaries.CASES)
def test_a_report_of_any_summary_can_be_read(name: str, chromium: browsing.Chromium, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(report(summaries.CASES[name](), SCENARIO, f"wirespeed run {'y' * 90}"), encoding="utf-8")
    assert seen(chromium, file.as_uri()) == []


@pytest.mark.parametrize("name", RUNS)
def test_a_report_of_a_run_can_be_read(name: str, chromium: browsing.Chromium, tmp_path: Path) -> None:
    scenario, settings = RUNS[name]
    wirespeed.run(scenario, set=settings).report(tmp_path / "report.html")
    assert seen(chromium, (tmp_path / "report.html").as_uri()) == []


@pytest.mark.parametrize("name", STUDIES)
def test_a_page_of_a_study_can_be_read(name: str, chromium: browsing.Chromium, tmp_path: Path) -> None:
    command, scenario, *more = STUDIES[name]
    settings = LOSSY if command in OWN_PACKETS else NO_CURVE
    words = [command, scenario, *more, *(word for each in settings for word in ("--set", each)), "-q"]
    if command == "advise":
        fit, _ = techniques.fitting(tomllib.loads(wirespeed.resolve(scenario, set=settings)))
        words += [word for each in fit if each.name not in TRIED for word in ("--without", each.name)]
    if command != "run":
        words += ["--out", str(tmp_path)]
    ran = subprocess.run([sys.executable, "-m", "wirespeed", *words], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode != 2, ran.stderr
    assert seen(chromium, (tmp_path / Path(name).name).as_uri()) == []


def test_the_page_that_is_explored_can_be_read(chromium: browsing.Chromium, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, packets in (("PACKETS", 2000), ("LONG", 3000), ("CURVE_PACKETS", 1000)):
        monkeypatch.setattr(runs, name, packets)
    about = Talk(Given("forwarding", settings=FEW), 2)
    server = Server(about, "forwarding")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = "document.documentElement?.dataset.shortPicturesMs"
        assert seen(chromium, f"{server.url}#scenario=forwarding&b.cores=2", done) == []
    finally:
        server.shutdown()
        server.server_close()
        about.close()


@pytest.mark.parametrize(
    ("style", "fault"),
    [
        ("width: 2000px", "wide: body"),
        ("font-size: 11px", "small: h1 11.0 px"),
        ("color: #8a929c", "faint: h1"),
        ("width: 40px; overflow: hidden; white-space: nowrap", "cut: h1"),
        ("height: 8px; overflow: hidden", "cut below: h1"),
        ("position: absolute; left: -300px", "beyond: h1"),
    ],
)
def test_what_hinders_is_found(style: str, fault: str, chromium: browsing.Chromium, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(report(summaries.sound(), SCENARIO), encoding="utf-8")
    chromium.opened(file.as_uri(), 600, "light")
    chromium.value(f"document.querySelector('h1').style.cssText = {style!r}")
    assert any(line.startswith(fault) for line in chromium.hindrances()), chromium.hindrances()


def test_words_of_a_chart_that_overlap_or_leave_it_are_found(chromium: browsing.Chromium, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(report(summaries.sound(), SCENARIO), encoding="utf-8")
    chromium.opened(file.as_uri(), 600, "light")
    chromium.value(
        "for (const [x, y] of [[100, 60], [104, 62], [-40, 90]]) { const words = document.querySelector('svg text')"
        ".cloneNode(); words.textContent = `at ${x}`; words.setAttribute('transform', `translate(${x},${y})`);"
        " document.querySelector('svg.chart').append(words); }"
    )
    found = chromium.hindrances()
    assert any(line.startswith("overlap: text") for line in found), found
    assert any(line.startswith("out of its chart: text") for line in found), found
