"""The browser edition: the module of WebAssembly answers as the extension does, and the page as `wirespeed explore`."""

from __future__ import annotations

import importlib.util
import json
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import browsing
import summaries
from wirespeed import _wirespeed
from wirespeed.explore import browser
from wirespeed.report import charts

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "crates" / "web" / "page"
OF_THE_HOST = ("wall_s", "load_s", "packets_per_wall_s", "commit")
CRATES = (
    *("web", "sim", "traffic", "functions", "machine", "queueing", "control", "policy", "engine", "stats", "probe"),
    *("packet", "state", "units"),
)
PACKETS = 3000
QUESTION = {"scenario": "forwarding-64b", "page": "p", "turn": 1, "a": {}, "b": None}


def loaded(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found  # where dataclasses look
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def web() -> Any:
    return loaded(ROOT / "packaging" / "web.py", "packing_web")


@pytest.fixture(scope="module")
def module(web: Any) -> Path:
    """The module, where `make web` has made it of these sources."""
    path: Path = web.module_path()
    if shutil.which("node") is None:
        pytest.skip("node is not installed: the module is not run")
    if not path.exists():
        pytest.skip(f"{path} is not there: `make web` compiles it")
    sources = (each for crate in CRATES for each in (ROOT / "crates" / crate / "src").rglob("*.rs"))
    newer = next((each for each in sources if each.stat().st_mtime > path.stat().st_mtime), None)
    if newer is not None:
        pytest.skip(f"{path} is older than {newer.name}: `make web` compiles it anew")
    return path


def asked(module: Path, *questions: dict[str, Any], files: tuple[Path, ...] = ()) -> Iterator[Any]:
    """The module's answers, in Node."""
    lines = "\n".join(json.dumps(each) for each in questions)
    command = ["node", str(PAGE / "node.js"), str(module), *map(str, files)]
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    for line in ran.stdout.splitlines():
        yield json.loads(line)["told"]


def resolved(name: str, *settings: str, packets: int = PACKETS) -> str:
    text = _wirespeed.preset("scenario", name)
    return _wirespeed.Scenario(text, name, [f"run.packets={packets}", "run.curve=[]", *settings]).resolved


def simulated(summary: dict[str, Any]) -> dict[str, Any]:
    """What was simulated: what the host took is its own."""
    return {name: value for name, value in summary.items() if name not in OF_THE_HOST}


def natively(scenario: str, near: str | None = None) -> dict[str, Any]:
    judged = _wirespeed.Scenario(scenario, "scenario", [])
    stock = None if near is None else _wirespeed.Stock(_wirespeed.Scenario(near, "scenario", []))
    (ran,) = _wirespeed.run([judged], threads=1, stock=stock)
    return simulated(json.loads(ran.summary_json))


def equal(module: Path, names: list[str]) -> None:
    scenarios = [resolved(name) for name in names]
    found = asked(module, *({"what": "run", "scenarios": [each]} for each in scenarios))
    for name, scenario, told in zip(names, scenarios, found, strict=True):
        (ran,) = told["ok"]
        assert simulated(ran["summary"]) == natively(scenario), name
        assert ran["resolved"] == scenario


def test_runs_are_those_of_the_extension_bit_for_bit(module: Path) -> None:
    equal(module, ["forwarding-64b", "nat", "vhost"])


@pytest.mark.slow
def test_runs_of_all_shipped_scenarios_are_those_of_the_extension(module: Path) -> None:
    equal(module, [name for kind, name, _ in _wirespeed.presets() if kind == "scenario"])


@pytest.mark.slow
def test_runs_near_a_warm_machine_are_those_of_the_extension(module: Path) -> None:
    base, other = resolved("forwarding-64b"), resolved("forwarding-64b", "machine.llc.io_ways=4")
    ask = {"what": "run", "scenarios": [other]}
    near, alone = (simulated(told["ok"][0]["summary"]) for told in asked(module, {**ask, "near": base}, ask))
    assert near == natively(other, base)
    # A question near nothing begins cold, also after one that was near something.
    assert alone == natively(other)
    assert alone != near


def test_closed_forms_are_those_of_the_extension_but_for_the_last_digits(module: Path) -> None:
    """Their exponentials are another library's."""
    scenario = resolved("forwarding-64b", "machine.llc.io_ways=4")
    loads = (None, 0.5, 0.9)
    asks = ({"what": "predict", "profile": 0, "load": load} for load in loads)
    profile, *found = asked(module, {"what": "profile", "scenario": scenario}, *asks)
    native = _wirespeed.Profile(_wirespeed.Scenario(scenario, "scenario", []))
    assert profile == {"ok": 0}
    for load, told in zip(loads, found, strict=True):
        expected = json.loads(native.predict(load))
        assert told["ok"].keys() == expected.keys()
        for name, value in expected.items():
            if isinstance(value, float):
                assert told["ok"][name] == pytest.approx(value, rel=1e-9), name
            else:
                assert told["ok"][name] == value, name


def capture(file: Path, payload: int = 18, packets: int = 200) -> Path:
    """A few packets by a rule, of 60 bytes where their payload is of 18."""
    whole = bytearray(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for number in range(packets):
        source, length = 0x0A000001 + number % 7, 28 + payload
        head = struct.pack("!BBHHHBBHII", 0x45, 0, length, number, 0, 64, 17, 0, source, 0x0A640001)
        frame = bytes(12) + b"\x08\x00" + head + struct.pack("!HHHH", 1000, 53, 8 + payload, 0) + bytes(payload)
        whole += struct.pack("<IIII", 1, number, len(frame), len(frame)) + frame
    file.write_bytes(whole)
    return file


def test_a_capture_of_the_page_is_replayed_and_what_is_none_is_said(module: Path, tmp_path: Path) -> None:
    own, none = capture(tmp_path / "own.pcap"), tmp_path / "none.pcap"
    none.write_bytes(b"MZ is no capture")
    packed = tmp_path / "packed.pcap.xz"
    packed.write_bytes(b"\xfd7zXZ\0" + bytes(20))
    text, settings = _wirespeed.preset("scenario", "forwarding-64b"), ["run.packets=1000", "run.curve=[]"]
    scenario = _wirespeed.Scenario(text, "s", settings, capture=str(own)).resolved
    others = (str(each) for each in (none, packed, tmp_path / "away.pcap"))
    questions = [scenario, *(scenario.replace(str(own), each) for each in others)]
    ran, refused, xz, away = asked(
        module, *({"what": "run", "scenarios": [each]} for each in questions), files=(own, none, packed)
    )
    assert simulated(ran["ok"][0]["summary"]) == natively(scenario)
    assert ran["ok"][0]["summary"]["traffic"]["packets_in_file"] == 200
    assert refused["error"]["kind"] == "input"
    assert "none.pcap: not a capture: it starts with bytes 4d 5a" in refused["error"]["words"]
    assert "packed with xz, which is not read in a browser: unpack it" in xz["error"]["words"]
    assert "away.pcap" in away["error"]["words"]
    assert "the page was not given it" in away["error"]["words"]


@pytest.fixture(scope="module")
def desk(web: Any, module: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the page's desk tells in Node of captures, one after the other, and of closed forms after each."""
    pyodide = web.CRATE / "node_modules" / "pyodide"
    if not pyodide.exists():
        pytest.skip(f"{pyodide} is not there: `make web` gets it")
    folder = tmp_path_factory.mktemp("desk")
    app, none = folder / "app.zip", folder / "none.pcap"
    app.write_bytes(web._app())
    none.write_bytes(b"MZ is no capture")
    small, large = capture(folder / "small.pcap"), capture(folder / "large.pcap", 1200)
    huge = capture(folder / "huge.pcap", 1200, 20_000)
    captures: dict[str, tuple[str, Path | None]] = {
        "small": ("own.pcap", small),
        "large": ("other.pcap", large),
        "large by the name of small": ("own.pcap", large),
        "away": ("away.pcap", None),
        "none": ("none.pcap", none),
        "small again": ("own.pcap", small),
        **{f"huge {number}": (f"huge{number}.pcap", huge) for number in range(3)},
    }
    questions: list[dict[str, Any]] = []
    for name, file in captures.values():
        bytes_of = {} if file is None else {"file": str(file)}
        questions.append({"what": "capture", "question": {"name": name}, **bytes_of})
        questions.append({"what": "form", "question": QUESTION})
    command = ["node", str(PAGE / "node_desk.mjs"), str(module), str(pyodide), str(app)]
    lines = "\n".join(json.dumps(each) for each in questions)
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr[-2000:]
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    return {each: (told[2 * i]["told"], told[2 * i + 1]) for i, each in enumerate(captures)}


def test_each_capture_of_one_name_is_its_own(desk: dict[str, Any]) -> None:
    """A simulator knows files by their names: it would answer the second by the first."""
    says = {name: form["told"][0]["sides"]["a"]["says"] for name, (_, form) in desk.items()}
    assert desk["large by the name of small"][0] == [{}]
    assert says["large by the name of small"] == says["large"]
    assert says["large"] != says["small"]


def test_a_capture_that_cannot_be_kept_leaves_the_desk_as_it_was(desk: dict[str, Any]) -> None:
    refused, after = desk["away"]
    assert "error" in refused[0]
    assert after["told"] == desk["large by the name of small"][1]["told"]


def test_what_is_no_capture_is_said_and_the_next_one_is_answered(desk: dict[str, Any]) -> None:
    _, said = desk["none"]
    assert "none.pcap: not a capture: it starts with bytes 4d 5a" in json.dumps(said["told"])
    took, after = desk["small again"]
    assert took == [{}]
    assert after["told"] == desk["small"][1]["told"]


def test_captures_do_not_pile_up(desk: dict[str, Any]) -> None:
    first, _, last = (desk[f"huge {number}"][1]["bytes"] for number in range(3))
    assert first > 25_000_000  # the capture's own
    assert last == first


def test_what_is_too_large_for_a_page_is_an_error_in_words(module: Path) -> None:
    llc = 12_672 << 22
    huge = resolved("forwarding-64b", f'machine.llc.size="{llc} B"')
    (told,) = asked(module, {"what": "run", "scenarios": [huge]})
    assert told["error"]["kind"] == "memory"
    assert "more memory than a page has" in told["error"]["words"]


def test_the_module_judges_as_the_extension_and_says_what_is_no_question(module: Path) -> None:
    text = _wirespeed.preset("scenario", "forwarding-64b")
    wrong = {"what": "scenario", "text": text, "origin": "mine.toml", "set": ["machine.coers=2"]}
    judged, unknown, about = asked(module, wrong, {"what": "dance"}, {"what": "about"})
    with pytest.raises(_wirespeed.InputError) as native:
        _wirespeed.Scenario(text, "mine.toml", ["machine.coers=2"])
    assert judged["error"] == {"kind": "input", "words": str(native.value)}
    assert unknown["error"]["kind"] == "question"
    assert about["ok"]["version"] == _wirespeed.version()
    assert about["ok"]["commit"] != "unknown"


@pytest.mark.parametrize("case", ["sound", "lossless"])
def test_charts_of_the_page_are_those_of_the_report(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = summaries.CASES[case]()
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "altair", loaded(PAGE / "altair.py", "altair_of_the_page"))
        other = loaded(Path(charts.__file__), "charts_of_the_page")
    drawn = 0
    for of, what in (
        *((each, summary.get("curve") or []) for each in ("rate_over_load", "sojourn_over_load")),
        *((each, summary.get("series") or []) for each in ("rate_over_time", "machine_over_time", "mbufs_over_time")),
        ("cache_over_time", (summary.get("policy") or {}).get("intervals") or []),
    ):
        ours, theirs = getattr(other, of)(what), getattr(charts, of)(what)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            drawn += 1
            assert ours.svg() == theirs.svg(), of
    cdf = (summary["sojourn_cdf"], summary["sojourn_ns"])
    assert other.sojourn_distribution(*cdf).svg() == charts.sojourn_distribution(*cdf).svg()
    assert drawn


def test_a_page_answers_as_a_server_does_but_for_runs_that_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    page = browser.Page()

    def told(what: str, found: Any = None, **more: Any) -> Any:
        return json.loads(page.ask(what, json.dumps({**QUESTION, **more}), found))

    (scene,) = told("scene")
    assert "Receive ring" in scene["controls"]["a"]
    (first,) = told("answer")
    assert first["sides"]["a"]["command"] == "wirespeed run forwarding-64b"
    words, pictures = told("form")
    assert "Mpps" in words["sides"]["a"]["says"]
    assert "<svg" in pictures["sides"]["a"]["pictures"]
    (wanted,) = told("wanted", kind="short")
    question = wanted["question"]
    assert (question["what"], len(question["scenarios"])) == ("run", 1)
    assert wanted["phases"]["run"].startswith("Under way: run of 20,000 packets")
    (refused,) = told("answer", a={"rx": "none"})
    assert "Receive ring: `none` is no number" in refused["faults"]["a"][0]

    class Run:
        """A run as the worker tells it."""

        lower_loads_json = "[]"

        def __init__(self, summary: dict[str, Any], resolved: str, partial: bool, lives: Any) -> None:
            self.summary_json, self.resolved, self.partial, self.lives = json.dumps(summary), resolved, partial, lives

    monkeypatch.setattr(_wirespeed, "Run", Run)
    ran = [{"summary": summaries.sound(), "resolved": question["scenarios"][0], "partial": False, "lives": None}]
    verdict, drawn = told("ran", json.dumps(ran), kind="short", seconds=1.5)
    assert verdict["sides"]["a"]["stage"].endswith("after 1.50 s.")
    assert "<svg" in drawn["sides"]["a"]["pictures"]


def test_a_missing_node_is_named_with_how_to_get_it(web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", {"cargo": "cargo"}.get)
    with pytest.raises(web.MissingError, match=r"node is missing.*nodejs\.org"):
        web._compiled({"app.zip": b""}, Path("pyodide"))


@pytest.mark.slow
def test_the_page_answers_offline_in_chromium(web: Any, module: Path, tmp_path: Path) -> None:
    if browsing.NAME is None:
        pytest.skip("chromium is not installed: the page is not opened")
    modules = web.CRATE / "node_modules"
    if not modules.exists():
        pytest.skip(f"{modules} is not there: `make web` gets it")
    web.pack(module, modules, tmp_path / "web")
    packed = (tmp_path / "web" / "index.html").read_text(encoding="utf-8")
    assert "https://" not in packed.partition("asset-")[0]
    own = capture(tmp_path / "own.pcap")
    with browsing.Chromium(tmp_path / "profile") as chromium:
        begun = time.monotonic()
        chromium.call("Page.navigate", url=(tmp_path / "web" / "index.html").as_uri())
        chromium.until("document.documentElement?.dataset.formMs", 120)
        print(f"closed forms after {time.monotonic() - begun:.1f} s")
        chromium.until("document.documentElement.dataset.shortPicturesMs", 120)
        print(f"a run after {time.monotonic() - begun:.1f} s")
        assert "of 20,000 packets lost" in chromium.value("document.getElementById('a-says').textContent")
        assert chromium.value("document.querySelectorAll('#a-pictures svg').length") >= 2
        chromium.until("!document.getElementById('stop').hidden", 20)
        chromium.value("document.getElementById('stop').click()")
        assert chromium.value("document.getElementById('a-stage').textContent") == "Stopped; any control goes on."
        root = chromium.call("DOM.getDocument")["root"]["nodeId"]
        field = chromium.call("DOM.querySelector", nodeId=root, selector="#capture")["nodeId"]
        chromium.value("delete document.documentElement.dataset.shortPicturesMs")
        chromium.call("DOM.setFileInputFiles", nodeId=field, files=[str(own)])
        chromium.until("document.documentElement.dataset.shortPicturesMs", 120)
        assert "--capture own.pcap" in chromium.value("document.getElementById('a-command').textContent")
        assert chromium.value("document.getElementById('fault').textContent") == ""
        assert chromium.said() == []
