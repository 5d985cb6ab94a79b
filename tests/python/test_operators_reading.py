"""Files of operators: of every kind samples, real ones where they are, and what becomes of damaged ones."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_files import SAMPLES, Sample
from wirespeed.errors import InputError
from wirespeed.operators import known, texts
from wirespeed.operators.facts import MEASURED, Told, Trust
from wirespeed.operators.joining import join

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "operator"
EACH = [(kind, place, sample) for kind, samples in SAMPLES.items() for place, sample in enumerate(samples)]
NAMES = [f"{kind}-{place}" for kind, place, _ in EACH]
# Sums over lines, which grow with what there is.
SUMS = (
    "cores",
    "ports",
    "all_rx_queues",
    "packet_rate",
    "frame_bytes",
    "pool_size",
    "dimms",
    "dimm_channels",
    "sockets",
)


# Programs that print anything between what is looked for.
LOGS = ("testpmd",)


def read(text: str | bytes, kind: str | None = None) -> list[Told]:
    content = text if isinstance(text, bytes) else text.encode()
    return known.read_text(texts.of_bytes("file.txt", content), kind)


def outcome(text: str | bytes) -> list[Told] | InputError:
    """What a text comes to, joined as well; anything but InputError fails the test."""
    try:
        told = read(text)
        join(told)
    except InputError as e:
        return e
    return told


def of(told: list[Told], name: str) -> list[object]:
    return [fact.value for each in told for fact in each.facts if fact.name == name]


@pytest.mark.parametrize(("kind", "place", "sample"), EACH, ids=NAMES)
def test_a_file_is_recognised_and_tells_what_it_holds(kind: str, place: int, sample: Sample) -> None:
    told = read(sample.text)
    assert kind in [each.kind for each in told]
    for name, value in sample.facts.items():
        assert value in of(told, name), (name, of(told, name))
    for name, value in sample.measured.items():
        found = [each.value for one in told for each in one.measured if each.name == name]
        assert any(each == pytest.approx(value, rel=1e-6) for each in found), (name, found)


def test_every_kind_has_three_samples_or_more() -> None:
    assert {kind.name for kind in known.KINDS} == set(SAMPLES)
    assert all(len(samples) >= 3 for samples in SAMPLES.values())


@pytest.mark.parametrize(("kind", "place", "sample"), EACH, ids=NAMES)
def test_a_sample_is_of_one_kind_alone(kind: str, place: int, sample: Sample) -> None:
    assert [each.kind for each in read(sample.text)] == [kind]


@pytest.mark.parametrize(("kind", "place", "sample"), EACH, ids=NAMES)
def test_each_fact_and_measurement_says_the_file_it_is_of(kind: str, place: int, sample: Sample) -> None:
    lines = sample.text.count("\n") + 1
    for told in read(sample.text):
        for each in [*told.facts, *told.measured]:
            assert (found := re.fullmatch(r"file\.txt(?::(\d+))?", each.where))
            assert 1 <= int(found[1] or 1) <= lines
        assert all(each.name in MEASURED for each in told.measured)


def cuts(text: str) -> Iterator[str]:
    """Beginnings of a text: at the end of lines and within them."""
    draw = random.Random(len(text))
    ends = [found.end() for found in re.finditer("\n", text)]
    for end in draw.sample(ends, min(6, len(ends))):
        yield text[:end]
    for _ in range(14):
        yield text[: draw.randrange(1, len(text))]


@pytest.mark.parametrize(("kind", "place", "sample"), EACH, ids=NAMES)
def test_a_cut_file_is_refused_or_tells_nothing_that_is_wrong(kind: str, place: int, sample: Sample) -> None:
    whole = read(sample.text)
    for text in cuts(sample.text):
        found = outcome(text)
        if isinstance(found, InputError):
            assert str(found).startswith("file.txt"), found
            continue
        for fact in (fact for each in found for fact in each.facts):
            if fact.name not in SUMS and fact.trust > Trust.DEFAULT:
                assert fact.value in of(whole, fact.name), (fact, text[-40:])
        if not text.endswith("\n") and text.rpartition("\n")[2].strip() and not text.lstrip().startswith(("{", "[")):
            assert any("does not end" in note for each in found for note in each.notes), text[-40:]


@pytest.mark.parametrize(("kind", "place", "sample"), EACH, ids=NAMES)
@pytest.mark.parametrize("garbage", ["%$§ no such line 42", "\t\x1b[2J\x07", "}{][", "<html>502 Bad Gateway</html>"])
def test_a_garbage_line_changes_no_fact_and_is_noted(kind: str, place: int, sample: Sample, garbage: str) -> None:
    sound = read(sample.text)
    whole = {(fact.name, fact.value) for each in sound for fact in each.facts}
    notes = {note for each in sound for note in each.notes}
    lines = sample.text.splitlines(keepends=True)
    for at in {0, len(lines) // 2, len(lines)}:
        found = outcome("".join([*lines[:at], garbage + "\n", *lines[at:]]))
        if not isinstance(found, InputError):
            told = {(f.name, f.value) for each in found for f in each.facts if f.name not in SUMS and f.name != "cpu"}
            assert told <= whole, (at, told - whole)
            if kind not in LOGS:
                assert {note for each in found for note in each.notes} - notes, at


@pytest.mark.parametrize(("kind", "place", "sample"), EACH, ids=NAMES)
@pytest.mark.parametrize("number", ["9" * 30, "9" * 6000, "-1", "-5000000000", "1e400", "nan", "0"])
def test_numbers_that_no_machine_has_are_refused_or_noted(kind: str, place: int, sample: Sample, number: str) -> None:
    places = [found.span() for found in re.finditer(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", sample.text)]
    draw = random.Random(len(places))
    for begin, end in draw.sample(places, min(8, len(places))):
        found = outcome(sample.text[:begin] + number + sample.text[end:])
        if not isinstance(found, InputError):
            values = [fact.value for each in found for fact in each.facts if not isinstance(fact.value, str)]
            assert all(0 <= value < 1e13 for value in values)
        else:
            assert str(found).startswith("file.txt")


@pytest.mark.parametrize(("kind", "place", "sample"), EACH, ids=NAMES)
def test_bytes_that_are_no_text_are_refused_or_noted(kind: str, place: int, sample: Sample) -> None:
    content = sample.text.encode()
    for at in (0, len(content) // 3, len(content) - 1):
        found = outcome(content[:at] + b"\xff\xfe" + content[at:])
        if not isinstance(found, InputError):
            assert any("no UTF-8" in note for each in found for note in each.notes)
        with pytest.raises(InputError, match=r"file\.txt:\d+: is no text \(a zero byte\)"):
            read(content[:at] + b"\0" + content[at:])


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(EACH), st.randoms(use_true_random=False))
def test_any_damage_is_an_error_of_ours_or_none(each: tuple[str, int, Sample], draw: random.Random) -> None:
    content = bytearray(each[2].text.encode())
    for _ in range(draw.randrange(1, 6)):
        at = draw.randrange(len(content))
        match draw.randrange(4):
            case 0:
                content[at] = draw.randrange(1, 256)
            case 1:
                del content[at : at + draw.randrange(1, 30)]
            case 2:
                content[at:at] = bytes(draw.randrange(1, 256) for _ in range(draw.randrange(1, 8)))
            case _:
                content[at:at] = content[max(0, at - 40) : at]
        if not content:
            break
    outcome(bytes(content))


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_foreign_file_is_refused_where_a_kind_is_asked_for(kind: str) -> None:
    foreign = "The quick brown fox\njumps over 13 lazy dogs: 7\n"
    with pytest.raises(InputError, match=rf"^file\.txt:\d+: .*\(read as {kind}: ") as refused:
        read(foreign, kind)
    assert "ends before" in str(refused.value) or "is no YAML" in str(refused.value)


@pytest.mark.parametrize("text", ["hello\n", "1,2,3\n", '{"a": 1}\n', "[1, 2]\n", "<xml/>\n", "key: value\n"])
def test_an_unknown_file_is_refused_with_what_came_and_what_is_known(text: str) -> None:
    with pytest.raises(InputError, match=r"^file\.txt:1: came `.*`: no kind of file that is known") as refused:
        read(text)
    assert all(kind.name in str(refused.value) for kind in known.KINDS)


def test_an_empty_file_a_folder_and_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    for content in (b"", b"\n \n"):
        with pytest.raises(InputError, match=r"file\.txt:1: is empty"):
            read(content)
    with pytest.raises(InputError, match="is a folder"):
        known.read(tmp_path)
    with pytest.raises(InputError, match=r"--kind vpp-runtim: must be one of .* \(did you mean `vpp-runtime`"):
        read(SAMPLES["vpp-runtime"][0].text, "vpp-runtim")
    with pytest.raises(FileNotFoundError):
        known.read(tmp_path / "none.txt")


def test_json_that_breaks_off_says_the_line() -> None:
    text = SAMPLES["lscpu"][1].text
    with pytest.raises(InputError, match=r"file\.txt:\d+: is no whole JSON"):
        read(text[: len(text) // 2])
    with pytest.raises(InputError, match="endless depth"):
        read('{"lscpu": ' + "[" * 100_000)


def test_a_startup_conf_with_braces_that_do_not_close_says_where() -> None:
    with pytest.raises(InputError, match=r"file\.txt:1: `dpdk \{` is never closed"):
        read("dpdk {\n dev 0000:3b:00.0 { num-rx-desc 512 }\n")
    with pytest.raises(InputError, match=r"file\.txt:2: came `}` that closes nothing"):
        read("cpu { workers 2 }\n}\n")
    with pytest.raises(InputError, match=r"file\.txt:1: num-rx-desc `many`: must be a whole number"):
        read("dpdk { dev default { num-rx-desc many } }\n")


def test_yaml_that_is_none_says_the_line() -> None:
    with pytest.raises(InputError, match=r"file\.txt:3: is no YAML"):
        read("dpdk:\n  interfaces:\n\t- broken: [\n")
    with pytest.raises(InputError, match=r"file\.txt:4: threads `several`: must be a whole number or auto"):
        read("dpdk:\n  interfaces:\n    - interface: a\n      threads: several\n")


def test_one_file_may_hold_several_outputs() -> None:
    text = SAMPLES["vpp-hardware"][0].text + SAMPLES["vpp-runtime"][0].text + SAMPLES["vpp-buffers"][0].text
    assert [each.kind for each in read(text)] == ["vpp-hardware", "vpp-runtime", "vpp-buffers"]


REAL_KINDS = {
    "lscpu.json": ("lscpu", "cpu", "AMD EPYC"),
    "lscpu-caches.json": ("lscpu-caches", "llc_bytes", 32 << 20),
    "lscpu-caches.txt": ("lscpu-caches", "llc_ways", 16),
    "numactl-H.txt": ("numactl", "numa_nodes", 1),
    "lshw.json": ("lshw", "driver", "virtio_net"),
    "ethtool-i-virtio_net.txt": ("ethtool-i", "driver", "virtio_net"),
    "ethtool-g-virtio_net.txt": ("ethtool-g", "rx_descriptors", 256),
    "ethtool-l-virtio_net.txt": ("ethtool-l", "rx_queues", 1),
    "ethtool-c-virtio_net.txt": ("ethtool-c", None, None),
    "ethtool-k-virtio_net.txt": ("ethtool-k", None, None),
    "ethtool-S-virtio_net.txt": ("ethtool-S", None, None),
    "testpmd-22.11.txt": ("testpmd", "program", "testpmd-mac"),
    "testpmd-22.11-stats-period.txt": ("testpmd", "burst", 64),
    "dpdk-telemetry-22.11.json": ("telemetry", "rx_descriptors", 512),
    "dpdk-telemetry-24.11.json": ("telemetry", "pool_cache", 250),
    "ovs-pmd-stats-show.txt": ("ovs-stats", "cores", 1),
    "ovs-pmd-perf-show.txt": ("ovs-perf", "packet_rate", 38386e3),
    "ovs-pmd-rxq-show.txt": ("ovs-rxq", "all_rx_queues", 3),
    "ovs-mempool.txt": ("mempool", "pool_element", 3008),
    "suricata-7.0-dpdk.yaml": ("suricata", "rx_descriptors", 1024),
    "suricata-7.0-stats.log": ("suricata-stats", "frame_bytes", 64.0),
    "suricata-7.0-eve-stats.jsonl": ("suricata-stats", "frame_bytes", 64.0),
    "perf-stat-x.csv": ("perf", None, None),
    "perf-stat-I.csv": ("perf", None, None),
    "perf-stat-per-socket.csv": ("perf", None, None),
    "perf-stat-j.json": ("perf", None, None),
}


@pytest.mark.parametrize("name", REAL_KINDS)
def test_real_outputs_are_read(name: str) -> None:
    if not (REAL / name).exists():
        pytest.skip("wants ../shared/data/operator")
    kind, fact, value = REAL_KINDS[name]
    told = known.read(REAL / name)
    assert kind in [each.kind for each in told]
    assert fact is None or value in of(told, fact)
    content = (REAL / name).read_bytes()
    for at in range(1, len(content), max(1, len(content) // 25)):
        outcome(content[:at])


LIVE = {
    "lscpu -J": "lscpu",
    "lscpu": "lscpu",
    "lscpu --caches": "lscpu-caches",
    "lscpu -J --caches": "lscpu-caches",
    "numactl -H": "numactl",
    "perf stat -x, -e task-clock,cycles true": "perf",
    "perf stat -j -e task-clock,cycles true": "perf",
}


@pytest.mark.parametrize("command", LIVE)
def test_what_this_machine_prints_is_read(command: str) -> None:
    program, *options = command.split()
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"wants {program}")
    done = subprocess.run(
        [found, *options], capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    )
    printed = done.stderr if program == "perf" else done.stdout
    if done.returncode != 0:
        pytest.skip(f"{command}: {done.stderr.strip()[:80]}")
    if program == "lscpu" and "caches" not in command and "Model name" not in printed:
        pytest.skip("lscpu knows no model here")
    try:
        told = read(printed)
    except InputError:
        if "--caches" in command:
            pytest.skip("lscpu knows no caches here")
        raise
    assert [each.kind for each in told] == [LIVE[command]]


@pytest.mark.parametrize("filler", ["\n", "[\n", "<\n", "a: "])
@pytest.mark.parametrize("kind", ["telemetry", "vpp-runtime", "suricata-stats", "perf"])
def test_a_long_file_of_little_takes_no_long_time(kind: str, filler: str) -> None:
    begun = time.process_time()
    outcome(SAMPLES[kind][0].text + filler * (200_000 // len(filler)))
    assert time.process_time() - begun < 10
