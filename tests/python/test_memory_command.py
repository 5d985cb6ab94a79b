"""Caches and DRAM on their own: against reference programs, and what bad input is told."""

from __future__ import annotations

import array
import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from wirespeed import InputError, memory, terminal

SHARED = Path(__file__).resolve().parents[3] / "shared"
LINE = 64
WINDOW = 1 << 30
REQUESTS = 200_000
# The map of the reference: bank group bits 13-14, bank 15-16, row from 17.
MAP = "row bank group column"
LEVELS = "32KiB/8,1MiB/16,16MiB/16"

Addresses = npt.NDArray[np.uint64]


def stream(count: int = REQUESTS) -> Addresses:
    return (np.arange(count, dtype=np.uint64) * LINE) % WINDOW


def uniform(count: int = REQUESTS) -> Addresses:
    rng = random.Random(0)
    return np.array([rng.randrange(WINDOW // LINE) * LINE for _ in range(count)], dtype=np.uint64)


def test_a_sample_of_all_sets_is_exact_and_one_of_an_eighth_says_how_far_off_it_is() -> None:
    addresses = uniform() % (1 << 22)
    exact = memory.simulate_cache(addresses, LEVELS)["levels"]
    for found, level in zip(memory.simulate_cache(addresses, LEVELS, sample=1)["levels"], exact, strict=True):
        assert [found[key] for key in ("hits", "misses", "evictions", "writebacks")] == [
            level[key] for key in ("hits", "misses", "evictions", "writebacks")
        ]
        assert found["hit_rate_half_width"] == 0
    missed = 0
    for seed in range(20):
        for found, level in zip(
            memory.simulate_cache(addresses, LEVELS, sample=8, seed=seed)["levels"], exact, strict=True
        ):
            assert found["hit_rate_half_width"] < 0.2
            missed += abs(found["hit_rate"] - level["hit_rate"]) > found["hit_rate_half_width"]
    # 60 intervals at 95 %.
    assert missed <= 9
    with pytest.raises(InputError, match=r"sample = 1000: .*1 to 32"):
        memory.simulate_cache(addresses, LEVELS, sample=1000)


def test_cache_counts_are_those_of_pycachesim() -> None:
    cachesim = pytest.importorskip("cachesim", reason="pycachesim is not installed (pip install pycachesim)")
    rng = random.Random(5)
    for _ in range(25):
        policy = rng.choice(["lru", "fifo"])
        shapes = [(2 ** rng.randint(0, 4), rng.choice([1, 2, 4, 8]))]
        for _ in range(rng.randint(0, 2)):
            shapes.append((shapes[-1][0] * rng.choice([2, 4]), rng.choice([4, 8, 16])))
        below: Any = cachesim.MainMemory()
        chain: list[Any] = []
        for at in reversed(range(len(shapes))):
            sets, ways = shapes[at]
            level = cachesim.Cache(f"L{at + 1}", sets, ways, LINE, policy.upper())
            if chain:
                level.set_load_from(chain[0])
                level.set_store_to(chain[0])
            else:
                below.load_to(level)
                below.store_from(level)
            chain.insert(0, level)
        simulator = cachesim.CacheSimulator(chain[0], below)
        lines = rng.choice([64, 512, 4096])
        addresses = [rng.randrange(lines) * LINE for _ in range(3_000)]
        for address in addresses:
            simulator.load(address)
        levels = ",".join(f"{sets * ways * LINE}/{ways}:{policy}" for sets, ways in shapes)
        ours = memory.simulate_cache(addresses, levels)["levels"]
        theirs = [(level.stats()["HIT_count"], level.stats()["MISS_count"]) for level in simulator.levels(False)]
        assert [(level["hits"], level["misses"]) for level in ours] == theirs, levels


def test_the_bandwidth_that_is_lost_is_explained() -> None:
    lost = memory.simulate_dram(stream(), "ddr4-2400u", map=MAP)
    assert sum(lost["bandwidth_split"].values()) == pytest.approx(1)
    assert lost["bandwidth_split"]["data"] == pytest.approx(lost["peak_share"], rel=1e-6)
    assert 0.73 < lost["peak_share"] < 0.76
    assert max(lost["bandwidth_split"], key=lambda cause: lost["bandwidth_split"][cause] * (cause != "data")) == (
        "bank_group"
    )
    advised = re.search(r"map `([^`]+)`", lost["explanation"][0])
    assert advised is not None
    assert memory.simulate_dram(stream(), "ddr4-2400u", map=advised[1])["peak_share"] > 0.93


def test_every_way_to_give_requests_gives_the_same(tmp_path: Path) -> None:
    addresses, is_write = uniform(2_000), np.arange(2_000) % 3 == 0
    arrivals = np.arange(2_000, dtype=np.int64) * 7
    text = "".join(
        f"{'W' if write else 'R'} {address:x} {clock}\n"
        for address, write, clock in zip(addresses, is_write, arrivals, strict=True)
    )
    plain, packed, binary = (tmp_path / name for name in ("t.rw", "t.rw.gz", "t.bin"))
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    memory.write_trace(packed, binary)
    read = memory.read_trace(binary)
    assert (len(read), read.format, read.compression) == (2_000, "binary", "plain")
    assert np.array_equal(np.frombuffer(read.addresses(), np.uint64), addresses)
    assert np.array_equal(np.frombuffer(read.writes(), bool), is_write)
    assert np.array_equal(np.frombuffer(read.clocks(), np.uint64), arrivals)

    def found(trace: Any, **more: Any) -> dict[str, Any]:
        document = memory.simulate_dram(trace, offered="trace", **more)
        return {key: value for key, value in document.items() if key != "cpu_s"}

    wanted = found(addresses, is_write=is_write, arrivals=arrivals)
    assert found(plain) == found(str(packed)) == found(read) == wanted
    as_lists = {"is_write": is_write.tolist(), "arrivals": arrivals.tolist()}
    assert found(addresses.tolist(), **as_lists) == wanted
    assert found(array.array("Q", addresses.tolist()), **as_lists) == wanted
    assert found(np.repeat(addresses, 2)[::2], is_write=np.repeat(is_write, 2)[::2], arrivals=arrivals) == wanted
    assert wanted["writes"] == is_write.sum()


def test_a_record_has_the_clocks_of_each_request() -> None:
    found = memory.simulate_dram(stream(1_000), offered="every=20", refresh="off", record=True)
    accepted, finished = np.asarray(found["accepted_clk"]), np.asarray(found["finished_clk"])
    assert np.all(np.diff(accepted) == 20)
    assert found["clocks"] == finished.max()
    assert np.mean(finished - accepted) == pytest.approx(found["read_latency_clk"]["mean"])


def test_no_request_is_an_answer_too() -> None:
    found = memory.simulate_dram(np.array([], dtype=np.uint64))
    assert (found["requests"], found["clocks"], found["read_latency_clk"]) == (0, 0, None)
    cache = memory.simulate_cache(np.array([], dtype=np.uint64), "32KiB/8")
    assert cache["levels"][0]["hit_rate"] is None


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "t.rw"
    path.write_text("R 40\nW 80\nR 40\n")
    return path


def test_the_commands_print_documented_objects(wirespeed: Any, trace: Path) -> None:
    code, out, _ = wirespeed("memory", "dram", "--preset", "ddr4-2400u", "--trace", str(trace), "--format", "json")
    found = json.loads(out)
    assert (code, found["requests"]) == (0, 3)
    assert {"cpu_s", "bandwidth_gb_per_s", "clocks", "row_hits", "row_misses", "row_conflicts"} <= found.keys()
    assert {"mean", "p50", "p99"} <= found["read_latency_clk"].keys()
    code, out, _ = wirespeed("memory", "cache", "--levels", LEVELS, "--trace", str(trace), "--format", "json")
    cache = json.loads(out)
    assert code == 0
    assert cache["cpu_s"] >= 0
    assert [(level["name"], level["hits"], level["misses"]) for level in cache["levels"]] == [
        ("L1", 1, 2),
        ("L2", 0, 2),
        ("L3", 0, 2),
    ]
    page = (Path(__file__).parents[2] / "docs" / "reference" / "results.md").read_text()
    documented = set(re.findall(r"`([\w-]+)`", page))
    missing = keys(found) | keys(cache)
    assert missing <= documented, f"docs/reference/results.md does not describe {sorted(missing - documented)}"


def keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value[:1])) if isinstance(value, list) else set()


def test_the_commands_print_text_to_read(wirespeed: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.bin"
    memory.write_trace(stream(20_000), path)
    code, out, _ = wirespeed("memory", "dram", "--map", MAP, "--trace", str(path))
    assert code == 0
    for words in ("GB/s", "of the peak of 19.2 GB/s", "bank group (tCCD_L)", "row hits", "Why it is below peak"):
        assert words in out
    code, out, _ = wirespeed("memory", "cache", "--levels", "32KiB/8,LLC=1MiB/16", "--trace", str(path))
    assert code == 0
    assert "LLC" in out
    assert "hit rate" in out
    assert "slices" not in out
    assert "class" not in out


def test_several_presets_are_a_row_each_and_a_list_of_objects(wirespeed: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.bin"
    memory.write_trace(stream(20_000), path)
    args = ("memory", "dram", "--trace", str(path), "--preset", "ddr5-4800b, ddr5-5600b", "--preset", "lpddr5x-8533")
    names = ["ddr5-4800b", "ddr5-5600b", "lpddr5x-8533"]
    code, out, _ = wirespeed(*args, "--format", "json")
    found = json.loads(out)
    assert (code, [each["preset"] for each in found]) == (0, names)
    alone = [memory.simulate_dram(stream(20_000), name) for name in names]
    assert without_time(found) == without_time(alone) == without_time(memory.compare_drams(stream(20_000), names))
    code, out, _ = wirespeed(*args, "--by", "channel")
    cells = [line.split() for line in out.splitlines()]
    rows = {line[0]: line[1:] for line in cells if line and line[0] in names}
    assert code == 0
    for each in found:
        bandwidth, of, peak, *_, uneven = rows[each["preset"]]
        assert of == "of"
        assert float(peak) == pytest.approx(each["peak_gb_per_s"], rel=0.01)
        assert float(bandwidth) == pytest.approx(each["bandwidth_gb_per_s"], rel=0.01)
        assert float(uneven) == pytest.approx(each["most_over_mean"]["channel"], rel=0.01)
    for wrong in ("ddr5-4800b", []):
        with pytest.raises(InputError, match=r"presets: .*: must be a list of presets"):
            memory.compare_drams(stream(10), wrong)


def without_time(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in each.items() if key != "cpu_s"} for each in documents]


def test_the_load_of_channels_and_banks_is_printed(wirespeed: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.bin"
    # Three of four lines in the first channel of two.
    lines = np.arange(20_000, dtype=np.uint64)
    memory.write_trace(np.where(lines % 4 == 0, 2 * lines + 1, 2 * lines) * LINE, path)
    args = ("memory", "dram", "--trace", str(path), "--preset", "ddr5-5600b")
    found = memory.simulate_dram(path, "ddr5-5600b")
    code, out, _ = wirespeed(*args, "--by", "channel")
    assert code == 0
    assert "Load by channel: the busiest has 1.50 times the mean of requests" in out
    cells = [line.split() for line in out.splitlines()]
    printed = [int(line[1].replace(",", "")) for line in cells if line[:1] in (["0"], ["1"])]
    assert printed == [each["requests"] for each in found["channels"]] == [15_000, 5_000]
    code, out, _ = wirespeed(*args, "--by", "bank")
    header = next(line.split() for line in out.splitlines() if "bus busy" in line)
    assert header[:3] == ["channel", "group", "bank"], "there is one rank"
    code, out, _ = wirespeed(*args[:-1], "hbm2-2000", "--by", "bank")
    assert "the 16 busiest of 256" in " ".join(out.split())
    assert "Load by" not in wirespeed(*args)[1]


def test_speed_and_channels_stand_in_place_of_the_presets(wirespeed: Any, trace: Path) -> None:
    args = ("memory", "dram", "--trace", str(trace), "--preset", "ddr5-4800b", "--format", "json")
    code, out, _ = wirespeed(*args, "--speed", "5600", "--channels", "4", "--refresh", "same-bank")
    found = json.loads(out)
    assert (code, found["preset"], len(found["channels"])) == (0, "ddr5-5600b", 4)
    assert found["controller"]["refresh"] == "same-bank"
    assert found["peak_gb_per_s"] == pytest.approx(89.6)
    other = memory.simulate_dram(trace, "ddr5-4800b", speed=5200, channels=np.int64(1))
    assert (other["preset"], other["clock_mhz"], len(other["channels"])) == ("ddr5-4800b@5200", 2600, 1)


def test_slices_classes_and_devices_are_printed_where_there_are_any(wirespeed: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.rw"
    path.write_text(
        "".join(f"{'W' if i % 2 else 'R'} {64 * i:x} {'io' if i % 2 else 'class=3'}\n" for i in range(4000))
    )
    levels = "32KiB/8,LLC=64KiB/16:slices=2"
    args = ("memory", "cache", "--trace", str(path), "--levels")
    code, out, _ = wirespeed(*args, f"{levels}:ring")
    assert code == 0
    found = memory.simulate_cache(path, f"{levels}:ring")
    llc = found["levels"][1]
    lines = [line.split() for line in out.splitlines()]
    assert ["slices", "of", "LLC", "hit", "rate", "hits", "misses", "hops"] in lines
    rows = [line for line in lines if line[:1] in (["0"], ["1"])]
    assert [[int(cell.replace(",", "")) for cell in row[-3:]] for row in rows] == [
        [each["hits"], each["misses"], each["hops"]] for each in llc["slices"]
    ]
    assert [float(line[1]) for line in lines if line[:1] == ["mean"]] == [pytest.approx(llc["mean_hops"], rel=0.01)]
    (of,) = [each for each in found["classes"] if each["class"] == 3]
    (first,) = [line for line in lines if line[:2] == ["3", "L1"]]
    assert [int(cell.replace(",", "")) for cell in first[-2:]] == [of["levels"][0][key] for key in ("hits", "misses")]
    assert any(line[:1] == ["DDIO"] for line in lines)
    # Without wires there are no hops.
    assert "hops" not in wirespeed(*args, levels)[1]


def test_a_preset_and_a_map_may_be_files(wirespeed: Any, trace: Path, tmp_path: Path) -> None:
    code, text, _ = wirespeed("presets", "ddr4-2400u")
    assert code == 0
    mine, mapped = tmp_path / "mine.toml", tmp_path / "map.toml"
    mine.write_text(text.replace('name = "ddr4-2400u"', 'name = "mine"').replace("rows = 65536", "rows = 1024"))
    fields = [("column", range(6, 13)), ("group", (13, 14)), ("bank", (15, 16)), ("row", range(17, 27))]
    lines = [f'[[fields]]\npart = "{part}"\nbits = {list(bits)}\n' for part, bits in fields]
    mapped.write_text("".join(lines))
    found = memory.simulate_dram(trace, mine, map=mapped)
    assert (found["preset"], found["map"]) == ("mine", "fields")
    assert found["map_fields"][1]["bits"] == [13, 14]
    mapped.write_text("".join(lines).replace("[13, 14]", "[]"))
    with pytest.raises(InputError, match=r"dram\.mine\.map = group of 0 bits.*: allowed is 2 bits"):
        memory.simulate_dram(trace, mine, map=mapped)
    mine.write_text(text.replace("RAS = ", "RAS = 1 # "))
    with pytest.raises(
        InputError, match=r"dram\.ddr4-2400u\.timings\.RAS = 1 with RCD = 17: allowed is RAS of at least"
    ):
        memory.simulate_dram(trace, mine)
    with pytest.raises(InputError, match=r"none\.toml: cannot be read: No such file"):
        memory.simulate_dram(trace, tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["dram", "--preset", "ddr4-2400"], "no such preset: did you mean ddr4-2400u?"),
        (["dram", "--map", "row bank column"], "map = group of 0 bits, XORed with 0: allowed is 2 bits"),
        (["dram", "--map", "row row bank group column"], "map = 2 row fields: allowed is one field per part"),
        (["dram", "--offered", "every=0"], "offered = every=0: allowed is every= and clocks, 1 or more"),
        (["dram", "--offered", "trace"], "offered = trace, which has no clocks"),
        (["dram", "--queue", "0"], "dram.controller.queue = 0"),
        (["dram", "--channels", "3"], "channels = 3: allowed is a power of two up to 64"),
        (["dram", "--speed", "9000"], "speed = 9000: allowed is 1200 to 4800 MT/s: half of ddr4-2400u's 2400 to twice"),
        (["dram", "--preset", "hmc-2.1", "--channels", "4"], "channels = 4 with a cube: allowed is a standard"),
        (["dram", "--refresh", "same-bank"], "refresh = same-bank refresh of ddr4-2400u: allowed is standards"),
        (["dram", "--trace-format", "lackey"], "t.rw:1: `R 40`: expected `I|L|S|M HEXADDRESS,BYTES`"),
        (["dram", "--trace-format", "elf"], 'format = "elf": allowed are rw, ramulator'),
        (
            ["cache", "--levels", "32KiB/8,1MiB/16:ways=0"],
            "levels[1].classes[0].ways = 0b0: allowed is at least one way",
        ),
        (["cache", "--levels", "33KB/8"], "levels[0].size = 33 KB with 8 ways: allowed is a multiple of ways x 64 B"),
    ],
)
def test_what_contradicts_itself_ends_with_two_and_its_numbers(
    wirespeed: Any, trace: Path, arguments: list[str], told: str
) -> None:
    code, out, err = wirespeed("memory", *arguments, "--trace", str(trace))
    assert (code, out) == (2, "")
    assert told in err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("R 40\nX 80\n", "t.rw:2: `X 80`: expected `R|W HEXADDRESS [CLOCK] [io|class=0..15]`"),
        ("R 40 7\nR 80 5\n", "t.rw:2: clock 5 after 7: expected clocks that do not decrease"),
        ("# far\nR 40\n\nR ffffffffff\n", "t.rw:4: address 0xffffffffff: allowed is below the device's 0x200000000"),
        ("", "t.rw: not a single request in it"),
    ],
)
def test_a_trace_that_is_wrong_ends_with_two_and_its_line(wirespeed: Any, trace: Path, text: str, told: str) -> None:
    trace.write_text(text)
    code, _, err = wirespeed("memory", "dram", "--trace", str(trace))
    assert code == 2
    assert told in err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"trace": np.array([64, -1])}, r"addresses\[1\] = -1: allowed are 0 and more"),
        ({"trace": np.array([0.5])}, "addresses: an array of float64: must be integers"),
        ({"trace": np.zeros((2, 2), np.uint64)}, "addresses: an array of 2 dimensions: must have 1"),
        ({"trace": [-1]}, "addresses: must be integers from 0"),
        ({"trace": 64}, "addresses: int: must be an array or a list"),
        ({"trace": [0, 64], "is_write": [True]}, "writes: 1 values for 2 addresses"),
        ({"trace": [0, 64], "is_write": np.zeros(2)}, "is_write: an array of format 'd': must be booleans"),
        ({"trace": [0, 64], "is_write": np.array([0, 2])}, r"is_write\[1\] = 2: allowed are 0 and 1"),
        ({"trace": [0, 64], "arrivals": [5, 3], "offered": "trace"}, r"arrivals = \[1\] = 3 after 5"),
        ({"trace": [0, 64], "arrivals": [5, 3]}, r"arrivals = \[1\] = 3 after 5"),
        ({"trace": [0], "arrivals": [5], "offered": "saturated"}, "arrivals: given with offered = 'saturated'"),
        ({"trace": [0], "arrivals": [5], "offered": "every=9"}, "arrivals: given with offered = 'every=9'"),
        ({"trace": [0], "queue": -1}, "queue = -1: allowed are 0 to 4294967295"),
        ({"trace": [0], "queue": 1.5}, "queue = 1.5: must be an integer"),
    ],
)
def test_arrays_that_are_wrong_are_told(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        memory.simulate_dram(**given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"seed": -1}, "seed = -1: allowed are 0 to 18446744073709551615"),
        ({"sample": -1}, "sample = -1: allowed are 1 to 18446744073709551615"),
        ({"sample": 0}, "sample = 0: allowed are 1 to"),
        ({"seed": 0.5}, "seed = 0.5: must be an integer"),
        ({"levels": None}, "levels: None: must be a text or a list of texts"),
        ({"levels": [32]}, r"levels: \[32\]: must be a text or a list of texts"),
    ],
)
def test_numbers_and_levels_that_are_wrong_are_told(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        memory.simulate_cache([0, 64], **{"levels": "32KiB/8", **given})


def test_arrivals_that_are_given_are_kept() -> None:
    found = memory.simulate_dram([0, 64, 128], arrivals=[0, 1000, 50_000], record=True)
    assert found["offered"] == "trace"
    assert list(found["accepted_clk"]) == [0, 1000, 50_000]


class Column:
    """What pandas and polars hand out: no buffer and no list, and an array when asked."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def to_numpy(self) -> Any:
        return self._values


def test_columns_of_a_table_and_flags_of_integers_are_taken() -> None:
    addresses, flags = uniform(500), np.arange(500) % 3 == 0

    def found(trace: Any, is_write: Any) -> dict[str, Any]:
        document = memory.simulate_dram(trace, is_write=is_write)
        return {key: value for key, value in document.items() if key != "cpu_s"}

    wanted = found(addresses, flags)
    assert found(Column(addresses), Column(flags)) == wanted
    for kind in ("int64", "uint8", "int32"):
        assert found(addresses, flags.astype(kind)) == wanted
    assert found(Column(addresses.astype("int64")), Column(flags.astype("int64"))) == wanted


def test_estimated_counts_are_integers() -> None:
    level = memory.simulate_cache(uniform(20_000), "32KiB/8", sample=8)["levels"][0]
    assert all(isinstance(level[key], int) for key in ("hits", "misses", "evictions", "writebacks"))


def test_a_cube_is_a_preset_and_may_be_changed(wirespeed: Any, tmp_path: Path) -> None:
    trace = tmp_path / "s.bin"
    memory.write_trace(stream(40_000), trace)
    code, out, _ = wirespeed("memory", "dram", "--preset", "hmc-2.1", "--trace", str(trace), "--format", "json")
    cube = json.loads(out)
    assert (code, cube["preset"], round(cube["peak_gb_per_s"]), cube["controller"]["page"]) == (
        0,
        "hmc-2.1",
        160,
        "closed",
    )
    assert 150 < cube["bandwidth_gb_per_s"] <= 160
    assert cube["links"]["answers_share"] > 0.95
    page = (Path(__file__).parents[2] / "docs" / "reference" / "results.md").read_text()
    missing = keys(cube) - set(re.findall(r"`([\w-]+)`", page))
    assert not missing, f"docs/reference/results.md does not describe {sorted(missing)}"
    code, out, _ = wirespeed("memory", "dram", "--preset", "hmc-2.1", "--trace", str(trace))
    assert (code, "the links are the limit" in re.sub(r"\s+", " ", out)) == (0, True)
    code, text, _ = wirespeed("presets", "hmc-2.1")
    assert code == 0
    half = tmp_path / "half.toml"
    half.write_text(re.sub(r"(?m)^links = 4$", "links = 2", text))
    found = memory.simulate_dram(trace, half, record=True)
    assert (round(found["peak_gb_per_s"]), len(found["accepted_clk"])) == (80, 40_000)
    assert memory.simulate_dram(stream(40_000), "hmc-2.1-vault")["controller"]["page"] == "closed"


def test_a_file_that_is_no_map_or_no_standard_is_named_with_its_line(trace: Path, tmp_path: Path) -> None:
    mapped, mine = tmp_path / "map.toml", tmp_path / "mine.toml"
    mapped.write_text('[[fields]]\npart = "vault"\nbits = [6]\n')
    with pytest.raises(InputError, match=r"map\.toml:2 = unknown variant `vault`, expected one of `channel`"):
        memory.simulate_dram(trace, map=mapped)
    mapped.write_text("row bank column")
    with pytest.raises(InputError, match=r"map\.toml: not TOML: "):
        memory.simulate_dram(trace, map=mapped)
    mine.write_text('name = "mine"\n')
    with pytest.raises(InputError, match=r"mine\.toml:1 = missing field `source`"):
        memory.simulate_dram(trace, mine)


def test_all_causes_have_shades_of_their_own() -> None:
    assert len(set(terminal._SHADES)) == len(terminal._SHADES) >= len(terminal._BUS)


def test_devices_and_classes_are_told_by_arrays_and_by_traces(tmp_path: Path) -> None:
    turns = np.arange(3000)
    device, line = turns % 3 == 0, turns // 3 % 256
    addresses = (line + np.where(device, 0, np.where(turns % 3 == 1, 2**14, 2**15))) * LINE
    classes = np.where(turns % 3 == 1, 1, 0)
    levels = "LLC=32KiB/8:ways=0x0c:class1=0xf0:io=0x03:slices=4:ring"
    given: dict[str, Any] = {"is_write": device, "io": device, "classes": classes}
    found = memory.simulate_cache(addresses, levels, **given)
    assert (found["accesses"], found["loads"], found["stores"]) == (3000, 2000, 0)
    # As many lines of class 1 as its four ways hold, and twice as many of the others.
    assert [of["levels"][0]["misses"] for of in found["classes"]] == [1000, 256]
    assert found["dma_writes"] == {"hits": 0, "misses": 1000}
    assert len(found["levels"][0]["slices"]) == 4
    assert 0.9 < found["levels"][0]["mean_hops"] < 1.1
    text = "".join(
        f"{'W' if io else 'R'} {at:x}{' io' if io else f' class={of}' if of else ''}\n"
        for at, io, of in zip(addresses.tolist(), device.tolist(), classes.tolist(), strict=True)
    )
    (tmp_path / "mixed.rw").write_text(text)
    memory.write_trace(addresses, tmp_path / "mixed.bin", **given)
    for name in ("mixed.rw", "mixed.bin"):
        trace = memory.read_trace(tmp_path / name)
        assert trace.origins() == bytes(np.where(device, 255, classes).astype(np.uint8))
        again = memory.simulate_cache(trace, levels)
        assert {**again, "cpu_s": 0} == {**found, "cpu_s": 0}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"classes": [16] * 3000}, r"classes\[0\] = 16: allowed are 0 to 15"),
        ({"io": [True]}, r"io: 1 values for 3000 addresses"),
        ({"io": np.full(3000, 2)}, r"io\[0\] = 2: allowed are 0 and 1"),
    ]
    for wrong, words in cases:
        with pytest.raises(InputError, match=words):
            memory.simulate_cache(addresses, levels, **wrong)
    with pytest.raises(InputError, match=r"io: a trace that was read has its own"):
        memory.simulate_cache(memory.read_trace(tmp_path / "mixed.rw"), levels, io=device)
