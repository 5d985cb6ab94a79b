"""Calibration: a machine that was measured, from made measurements and once for real."""

from __future__ import annotations

import copy
import functools
import math
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

import wirespeed
from wirespeed import InputError, cli
from wirespeed.calibrate import calibration, fitting, measuring
from wirespeed.calibrate.measuring import KIB, MIB, CacheLevel, Measured

LEVELS = {1: CacheLevel(1, 32 * KIB, 8, 1), 2: CacheLevel(2, 512 * KIB, 8, 1), 3: CacheLevel(3, 4 * MIB, 16, 2)}
MADE = [
    "machine.core.frequency=3 GHz",
    "machine.core.outstanding=10",
    "machine.l1.latency=1.3 ns",
    "machine.l2.size=512 KiB",
    "machine.l2.ways=8",
    "machine.l2.latency=5 ns",
    "machine.llc.size=3 MiB",
    "machine.llc.ways=16",
    "machine.llc.slices=8",
    "machine.llc.hash=mixed",
    "machine.llc.latency=17 ns",
    "machine.llc.replacement=random",
]


def _windows(*more: str, chains: tuple[int, ...] = (1, 4, 16)) -> dict[tuple[int, int], float]:
    """Chases on the made machine, `more` said of its LLC."""
    sizes = [MIB, 3 * MIB // 2, 2 * MIB, 3 * MIB, 4 * MIB, 6 * MIB, 8 * MIB]
    points = [(number, size) for number in chains for size in sizes]
    loops = [{"kind": "chase", "bytes": size, "chains": number} for number, size in points]
    settings = [*MADE, *(f"machine.llc.{each}" for each in more)]
    return dict(zip(points, fitting.simulate(settings, loops), strict=True))


def _mib(values: Mapping[str, object]) -> float:
    size = str(values["machine.llc.size"])
    return float(size.removesuffix(" MiB")) if size.endswith(" MiB") else float(size.removesuffix(" KiB")) / 1024


@functools.cache
def _made() -> Measured:
    """What the loops come to on a machine that is known: simulated in place of measured."""
    found = Measured(0, dict(LEVELS), "a made machine", multiply_ns=4 / 3, far=16 * MIB)
    sizes = [8 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 512 * KIB, MIB, 3 * MIB // 2, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB]
    found.chase = dict(zip(sizes, fitting.simulate(MADE, [{"kind": "chase", "bytes": s} for s in sizes]), strict=True))
    found.windows = _windows("size=3 MiB", "replacement=random")
    chains = (1, 4, 16, 24)
    loops = [{"kind": "chase", "bytes": 16 * MIB, "chains": n} for n in chains]
    found.chains = dict(zip(chains, fitting.simulate(MADE, loops), strict=True))
    found.streams = {
        (operation, size): fitting.simulate(MADE, [{"kind": "stream", "operation": operation, "bytes": size}])[0]
        for operation in ("read", "copy")
        for size in (16 * KIB, 2 * MIB, 8 * MIB)
    }
    # What the bus carries, which one core without a prefetcher does not reach.
    found.shared_read = {1: 1.0}
    for n in (16, 32, 64, 96, 256, 1024, 1536, 4096):
        beside = fitting._beside(found, n)
        found.pages[n] = (beside + 3 * (n > 64) + 20 * (n > 1024), beside)
    return found


def made() -> Measured:
    return copy.deepcopy(_made())


@pytest.fixture(scope="module")
def fitted() -> fitting.Fitted:
    return fitting.fit(made())


def test_a_known_machine_is_found_again(fitted: fitting.Fitted) -> None:
    values = fitted.values
    assert values["machine.core.frequency"] == "3 GHz"
    assert abs(values["machine.core.outstanding"] - 10) <= 1
    assert _mib(values) == pytest.approx(3, abs=0.126)
    assert values["machine.llc.replacement"] == "random"
    assert "machine.llc.tenants" not in values
    for path, ns in (("l1", 1.3), ("l2", 5.0)):
        assert abs(float(values[f"machine.{path}.latency"].split()[0]) / ns - 1) < 0.05
    assert (values["machine.tlb.l1_entries"], values["machine.tlb.l2_entries"]) == (64, 1024)
    (chase,) = fitting.simulate(fitted.overrides(), [{"kind": "chase", "bytes": 16 * MIB}])
    assert abs(chase / made().chase[16 * MIB] - 1) < 0.03


@pytest.mark.parametrize(("llc", "replacement"), [("1 MiB", "lru"), ("2 MiB", "random")])
def test_what_others_leave_of_the_llc_is_found_in_windows_alone(
    llc: str, replacement: str, fitted: fitting.Fitted
) -> None:
    found = made()
    found.windows = _windows(f"size={llc}", f"replacement={replacement}")
    shared = fitting.fit(found)
    assert _mib(shared.values) == pytest.approx(float(llc.split()[0]), abs=0.126)
    assert "machine.llc.tenants" not in shared.values
    assert shared.values["machine.llc.replacement"] == replacement
    # The rest is from short rounds, which see all of it: the same as with the LLC alone.
    assert shared.values["machine.llc.latency"] == fitted.values["machine.llc.latency"]
    said = shared.values["machine.llc.size"]
    assert f"LLC: {said} of 4 MiB are there for a program: others use the rest" in shared.notes


def test_who_brings_lines_into_the_llc_is_found_and_told_from_a_smaller_one() -> None:
    found = made()
    others = ("size=3 MiB", "replacement=lru", "tenants=20 Gbps")
    found.windows = _windows(*others)
    shared = fitting.fit(found)
    assert shared.values["machine.llc.replacement"] == "lru"
    size, gbps = _mib(shared.values), float(shared.values["machine.llc.tenants"].split()[0])
    assert 2.5 <= size <= 3.5
    assert 10 < gbps < 40
    assert any("others bring" in note for note in shared.notes)
    # Eight chains were not fitted on; of a fixed share of the LLC they would be where one chain is.
    wanted = _windows(*others, chains=(8,))
    loops = [{"kind": "chase", "bytes": size, "chains": chains} for chains, size in wanted]
    came = fitting.simulate(shared.overrides(), loops)
    off = [abs(math.log(a / b)) for a, b in zip(came, wanted.values(), strict=True)]
    assert sum(off) / len(off) < math.log(1.25), off
    (fixed,) = fitting.simulate(
        shared.overrides(**{"machine.llc.tenants": "0 Gbps"}), [{"kind": "chase", "bytes": 2 * MIB, "chains": 1}]
    )
    assert fixed < 0.5 * found.windows[1, 2 * MIB]


def test_an_llc_of_which_little_is_there_is_not_taken_for_what_the_processor_says() -> None:
    found = made()
    # As on a guest that has an eighth of a large LLC, all of which would hold the set of the chase through DRAM.
    found.caches[3] = CacheLevel(3, 24 * MIB, 16, 2)
    values = fitting.fit(found).values
    assert _mib(values) == pytest.approx(3, rel=0.13)
    assert abs(float(values["machine.llc.latency"].split()[0]) / 17 - 1) < 0.1
    came = fitting.simulate(
        [f"{path}={value}" for path, value in values.items() if path != "machine.name"],
        [{"kind": "chase", "bytes": size} for size in (2 * MIB, 16 * MIB)],
    )
    for ns, size in zip(came, (2 * MIB, 16 * MIB), strict=True):
        assert abs(ns / found.chase[size] - 1) < 0.1, size


def test_a_smaller_machine_takes_as_long_for_a_smaller_set(fitted: fitting.Fitted) -> None:
    points = [(chains, size) for chains in (1, 4, 16) for size in (2 * MIB, 4 * MIB, 8 * MIB)]
    others = {"machine.llc.replacement": "lru", "machine.llc.tenants": "20 Gbps"}

    def took(by: int) -> list[float]:
        loops = [{"kind": "chase", "bytes": size // by, "chains": chains} for chains, size in points]
        llc = {"machine.llc.size": fitting._size(3 * MIB // by)}
        return fitting.simulate(fitted.overrides(**fitting._smaller(fitted, by), **llc, **others), loops)

    whole = took(1)
    assert max(whole) > 10 * min(whole)
    for by in (2, 8):
        off = [a / b for a, b in zip(took(by), whole, strict=True)]
        assert all(0.85 < each < 1.18 for each in off), (by, off)


def test_what_a_prefetcher_does_is_told_from_what_loads_have() -> None:
    real = [
        "machine.core.outstanding_prefetches=16",
        "machine.core.waiting_prefetches=64",
        "machine.core.fill_interval=2 ns",
        *(f"machine.prefetcher.{each}" for each in ("kind=stream", "degree=4", "distance=16", "streams=16")),
    ]
    found = made()
    sets = (16 * KIB, 2 * MIB, 8 * MIB)
    loops = [{"kind": "stream", "operation": "read", "bytes": size} for size in sets]
    for size, ns in zip(sets, fitting.simulate([*MADE, *real], loops), strict=True):
        found.streams["read", size] = ns
    blocks = [measuring.read_blocks(lines, 48, found.far) for lines in measuring._BLOCKS]
    for lines, ns in zip(measuring._BLOCKS, fitting.simulate([*MADE, *real], blocks), strict=True):
        found.blocks[lines, 48] = ns
    spans = (3 * MIB, 4 * MIB, 6 * MIB, 8 * MIB, 12 * MIB)
    kept = [measuring.read_blocks(measuring.KEPT_LINES, measuring.KEPT_APART, span) for span in spans]
    found.kept_blocks = dict(zip(spans, fitting.simulate([*MADE, *real], kept), strict=True))
    # Lines read in order are as many as the window holds.
    (found.random_ns,) = fitting.simulate([*MADE, *real], [measuring.random_loads(found.far)])
    shared = fitting.fit(found)
    assert shared.values["machine.core.outstanding"] == pytest.approx(10, abs=1)
    assert shared.values["machine.core.outstanding_prefetches"] > 12
    assert float(shared.values["machine.core.fill_interval"].split()[0]) == pytest.approx(2, rel=0.05)
    for ns, size in zip(fitting.simulate(shared.overrides(), loops[1:]), sets[1:], strict=True):
        assert abs(math.log(ns / found.streams["read", size])) < math.log(1.2), (size, ns)
    # What the LLC holds of blocks tells how far ahead it runs.
    assert shared.values["machine.prefetcher.distance"] == 16
    assert shared.values["machine.core.waiting_prefetches"] == 64
    # Several prefetchers do about the same; blocks that were not fitted on tell them from one that does not.
    others = [measuring.read_blocks(lines, 40, 24 * MIB) for lines in (8, 16)]
    real_ns = fitting.simulate([*MADE, *real], others)
    for ns, wanted in zip(fitting.simulate(shared.overrides(), others), real_ns, strict=True):
        assert abs(math.log(ns / wanted)) < math.log(1.25), (ns, wanted)


def test_without_windows_the_whole_llc_is_assumed_and_said(fitted: fitting.Fitted) -> None:
    found = made()
    found.windows = {}
    # So large that it would hold the chase through DRAM.
    found.caches[3] = CacheLevel(3, 24 * MIB, 16, 2)
    whole = fitting.fit(found)
    assert whole.values["machine.llc.size"] == "24 MiB"
    assert any("no window tells" in note for note in whole.notes)
    overheads = [float(each.values["machine.dram.overhead"].split()[0]) for each in (whole, fitted)]
    assert overheads[0] == pytest.approx(overheads[1], abs=5)


def test_reads_within_l2_do_not_tell_what_enters_a_core() -> None:
    found = made()
    found.streams = {each: ns for each, ns in found.streams.items() if each[1] != 2 * MIB}
    fitted = fitting.fit(found)
    assert "machine.core.fill_interval" not in fitted.values
    assert any("what enters a core" in note for note in fitted.notes)


def test_what_is_written_is_a_machine_whose_numbers_have_their_source(tmp_path: Path, fitted: fitting.Fitted) -> None:
    text = calibration._preset(made(), fitted)
    (tmp_path / "mine.toml").write_text(text)
    own = tomllib.loads(text)
    assert own["machine"]["llc"]["size"] == fitted.values["machine.llc.size"]
    for line in text.splitlines():
        if "=" in line and not line.startswith(("#", "name")):
            assert "#" in line, line
    resolved = wirespeed.resolve("forwarding", set={"machine.preset": str(tmp_path / "mine.toml")})
    assert tomllib.loads(resolved)["machine"]["core"]["frequency"] == "3 GHz"


def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out what is fitted by searching."""
    monkeypatch.setattr(fitting, "_share", lambda it, found: None)
    monkeypatch.setattr(fitting, "_prefetcher", lambda it, found: None)


@pytest.mark.parametrize("walk", [0, 22, 60])
def test_a_guests_pages_are_those_of_its_host_and_its_walks_take_longer(
    walk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = made()
    for n in found.pages:
        beside = fitting._beside(found, n)
        # As where L2 keeps the tables; walks through small pages of the guest take longer than through huge ones.
        cost = 3 * (n > 64) + (4 + walk) * (n > 1024)
        found.pages[n] = (beside + cost + 20 * (n > 1024), beside + cost)
    _quick(monkeypatch)
    fitted = fitting.fit(found)
    values = fitted.values
    assert (values["machine.tlb.page"], values["machine.tlb.l1_entries"]) == ("4 KiB", 64)
    assert values["machine.tlb.l2_latency"] == "3 ns"
    # What a page costs is not taken for the LLC's latency, too.
    assert float(values["machine.llc.latency"].split()[0]) == pytest.approx(found.chase[2 * MIB] - 3, abs=0.06)
    if walk == 0:
        assert values["machine.tlb.l2_entries"] == 4096
        assert "machine.tlb.walk_latency" not in values
        return
    assert values["machine.tlb.l2_entries"] == 1024
    loop = {"kind": "chase", "bytes": 4096 * 4160, "step": 4160}
    (chase,) = fitting.simulate(fitted.overrides(), [loop])
    assert chase == pytest.approx(found.pages[4096][1], rel=0.03)
    huge, small = (float(values[f"machine.tlb.{each}"].split()[0]) for each in ("walk_latency", "shared_walk_latency"))
    assert 0.6 * walk < huge < 1.2 * walk + 4
    assert small - huge == pytest.approx(20, abs=0.2)


@pytest.mark.parametrize("rob", [96, 224])
def test_the_window_is_found_by_loads_that_wait_for_nothing(rob: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = made()
    known = [*MADE, f"machine.core.rob={rob}", "machine.core.outstanding=30"]
    (found.random_ns,) = fitting.simulate(known, [measuring.random_loads(found.far)])
    loops = [{"kind": "chase", "bytes": found.far, "chains": n} for n in found.chains]
    found.chains = dict(zip(found.chains, fitting.simulate(known, loops), strict=True))
    _quick(monkeypatch)
    fitted = fitting.fit(found).values["machine.core.rob"]
    assert abs(math.log2(fitted / rob)) < 0.35


def test_a_window_has_room_for_the_misses_that_were_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = made()
    _quick(monkeypatch)
    # As if loads were far apart: a window of 64 instructions does not hold ten loads of chases.
    found.random_ns = found.chains[1]
    values = fitting.fit(found).values
    assert values["machine.core.rob"] >= 8 * values["machine.core.outstanding"]


def test_caches_that_are_nearly_as_large_as_each_other_do_not_tell_what_enters_l1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = made()
    _quick(monkeypatch)
    found.caches[1], found.caches[2] = CacheLevel(1, 64 * KIB, 8, 1), CacheLevel(2, 128 * KIB, 8, 1)
    found.copies = {found.copied[0]: 1.0, found.copied[1]: 6.0}
    fitted = fitting.fit(found)
    assert "machine.core.l1_fill_interval" not in fitted.values
    assert any("what enters L1" in note for note in fitted.notes)


def test_what_enters_l1_is_told_by_copies_within_l2(monkeypatch: pytest.MonkeyPatch) -> None:
    found = made()
    _quick(monkeypatch)
    assert "machine.core.l1_fill_interval" not in fitting.fit(found).values
    in_l1, in_l2 = found.copied
    found.copies = {in_l1: 1.0, in_l2: 1.1}
    assert "machine.core.l1_fill_interval" not in fitting.fit(found).values
    found.copies[in_l2] = 6.0
    fitted = fitting.fit(found)
    assert float(fitted.values["machine.core.l1_fill_interval"].split()[0]) == pytest.approx(3.43, abs=0.01)
    (came,) = fitting.simulate(fitted.overrides(), [{"kind": "copy", "bytes": in_l2, "block": 1024}])
    assert came * 64 / 1024 == pytest.approx(6.0, rel=0.1)


def test_what_cannot_be_determined_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    found = made()
    found.caches = {3: LEVELS[3]}
    found.pages = {n: (fitting._beside(found, n),) * 2 for n in found.pages}
    monkeypatch.setattr(fitting, "_llc", lambda it, found: None)  # the search of its size has nothing to do with it
    _quick(monkeypatch)
    monkeypatch.setattr(fitting, "_overhead", lambda it, found, llc=None: None)
    said = " ".join(fitting.fit(found).notes)
    for words in ("l2: the kernel does not tell its size", "machine.tlb is left out", "is a lower bound"):
        assert words in said


def test_caches_are_read_as_the_kernel_tells_them(tmp_path: Path) -> None:
    for index, (level, kind, size, ways, shared) in enumerate(
        [(1, "Data", "48K", 12, "1"), (1, "Instruction", "32K", 8, "1"), (3, "Unified", "32768K", 16, "0-3,8")]
    ):
        folder = tmp_path / "cpu1" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        for name, value in {
            "level": level,
            "type": kind,
            "size": size,
            "ways_of_associativity": ways,
            "shared_cpu_list": shared,
        }.items():
            (folder / name).write_text(f"{value}\n")
    found = measuring.caches(1, tmp_path)
    assert found == {1: CacheLevel(1, 48 * KIB, 12, 1), 3: CacheLevel(3, 32 * MIB, 16, 5)}


def test_what_others_leave_is_measured_before_and_after_a_program() -> None:
    share = "what others leave of the LLC"
    ran: list[str] = []
    steps = measuring._steps(made(), [0], 32 * MIB, lambda: ran.append("meanwhile"))
    names = [name for name, _ in steps]
    here = names.index("a program meanwhile")
    assert names[:here].count(share) == names[here:].count(share) > 20
    steps[here][1]()
    assert ran == ["meanwhile"]
    alone = [name for name, _ in measuring._steps(made(), [0], 32 * MIB, None)]
    assert alone == [name for name in names if name != "a program meanwhile"]


def test_the_mean_error_is_a_factor() -> None:
    rows = [{"measured_ns": 1.0, "simulated_ns": 2.0}, {"measured_ns": 2.0, "simulated_ns": 1.0}]
    assert abs((calibration.geometric_error(rows) or 0) - 100) < 1e-9


def test_a_loop_is_measured_for_real() -> None:
    core = measuring.cores()[-1]
    near = measuring.native({"kind": "chase", "bytes": 8 * KIB, "chains": 1}, core, rounds=3, round_ms=0.5)
    far = measuring.native({"kind": "chase", "bytes": 64 * MIB, "chains": 1}, core, rounds=3, round_ms=0.5)
    assert 0.2 < near < far
    with pytest.raises(InputError, match="cannot run there"):
        measuring.native({"kind": "multiply"}, 1000)
    with pytest.raises(InputError, match="bytes = 1"):
        measuring.native({"kind": "chase", "bytes": 1, "chains": 1}, core)


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--cpu", "1000"], "--cpu 1000: must be one of"), (["--out", "/tmp"], "is a folder")]
)
def test_the_command_ends_with_2_on_bad_input(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["wirespeed", "calibrate", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == cli.EXIT_INPUT
    assert words in capsys.readouterr().err


@pytest.mark.slow
def test_this_machine_is_calibrated(tmp_path: Path) -> None:
    found = calibration.calibrate()
    assert len(found.document["judged"]) == len(calibration._JUDGES)
    found.write(tmp_path / "mine.toml")
    assert wirespeed.run("forwarding", set={"machine.preset": str(tmp_path / "mine.toml"), "run.packets": 2000}).summary
