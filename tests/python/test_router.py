"""The router's commands, as a person runs them."""

from __future__ import annotations

import csv
import json
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wirespeed import InputError, router
from wirespeed.commands import exits

NO_DRIVER = "libcuda_nowhere.so.1"


def run_command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wirespeed.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def capture(path: Path, packets: int) -> Path:
    """A pcap of UDP packets to 10.0.0.0/8, every tenth of them with a time to live that runs out."""
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for i in range(packets):
            ttl = 1 if i % 10 == 0 else 64
            header = struct.pack(
                ">BBHHHBBH4s4s", 0x45, 0, 28, i & 0xFFFF, 0, ttl, 17, 0, b"\xc0\0\2\1", b"\n\0\0" + bytes([i % 250])
            )
            frame = b"\2" * 12 + b"\x08\0" + header + bytes(26)
            out.write(struct.pack("<IIII", i // 1000, i % 1000 * 1000, len(frame), len(frame)) + frame)
    return path


@pytest.fixture
def routes(tmp_path: Path) -> Path:
    table = tmp_path / "routes.txt"
    table.write_text("10.0.0.0/8\n192.0.2.0/24\n")
    return table


def test_a_capture_is_routed_and_written(tmp_path: Path, routes: Path) -> None:
    given, out = capture(tmp_path / "in.pcap", 2000), tmp_path / "out.pcap"
    done = run_command(
        "router", "run", "--capture", given, "--table", routes, "--ordered", "--out", out, "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    routed = json.loads(done.stdout)
    assert (routed["packets"], routed["forwarded"], routed["dropped"]) == (2000, 1800, {"ttl_expired": 200})
    assert routed["reordered"] == 0
    assert routed["delay"] is None
    # A record less a header each: what is forwarded has the length it had.
    assert out.stat().st_size == 24 + 1800 * (16 + 60)
    again = tmp_path / "twin.pcap"
    twin = router.run(capture=given, table=routes, ordered=True, out=again, backend="twin")
    assert twin["backend"] == "twin"
    assert again.read_bytes() == out.read_bytes(), "the GPU's kernel writes the same bytes"


def test_without_workers_who_receives_works_and_says_so(tmp_path: Path, routes: Path) -> None:
    given, out = capture(tmp_path / "in.pcap", 2000), tmp_path / "out.pcap"
    how = ("--threads", "0", "--backend", "cpu", "--ordered", "--out", out)
    done = run_command("router", "run", "--capture", given, "--table", routes, *how)
    assert done.returncode == 0, done.stderr
    assert "none: who receives works" in done.stdout
    assert out.stat().st_size == 24 + 1800 * (16 + 60)
    done = run_command("router", "run", "--table", routes, "--packets", "10", "--backend", "twin", "--threads", "0")
    assert (done.returncode, "only with backend cpu" in done.stderr) == (2, True), done.stderr


def test_packets_above_the_mtu_leave_as_fragments_by_threads_and_by_the_kernel(tmp_path: Path, routes: Path) -> None:
    common = ("router", "run", "--table", routes, "--function", "lookup,ttl,fragment", "--structure", "poptrie")
    how = ("--mtu", "576", "--packets", "2000", "--ordered", "--threads", "1")
    out = [tmp_path / "cpu.pcap", tmp_path / "twin.pcap"]
    for backend, file in zip(("cpu", "twin"), out, strict=True):
        done = run_command(*common, *how, "--backend", backend, "--out", file)
        assert done.returncode == 0, done.stderr
        assert re.search(r"cut\W+[\d,]+ packets, [\d,]+ frames more", done.stdout), done.stdout
    assert out[0].read_bytes() == out[1].read_bytes()
    data, at, longest, count = out[0].read_bytes(), 24, 0, 0
    while at < len(data):
        captured, frame = struct.unpack_from("<II", data, at + 8)
        longest, at, count = max(longest, frame), at + 16 + captured, count + 1
    assert 14 + 500 < longest <= 14 + 576
    routed = router.run(
        table=routes,
        function="lookup,ttl,fragment",
        structure="poptrie",
        mtu=576,
        packets=2000,
        ordered=True,
        threads=1,
    )
    assert count == routed["forwarded"] + routed["fragments"]
    assert 0 < routed["fragmented"] < routed["fragments"]


@pytest.mark.parametrize("rate", ["0.01", "0.01 Mpps", "10 kpps"])
def test_offered_traffic_has_a_delay_at_a_rate_as_people_write_it(routes: Path, rate: str) -> None:
    done = run_command("router", "run", "--table", routes, "--rate", rate, "--packets", "500")
    assert done.returncode == 0, done.stderr
    assert re.search(r"delay, p99\W+[\d,.]+ (ns|µs|ms|s)\b", done.stdout), done.stdout
    # 500 packets take 50 ms to arrive in the mean, give or take 2 (Poisson).
    wall = re.search(r"time\W+([\d.]+) (ms|s)\b", done.stdout)
    assert wall, done.stdout
    assert float(wall[1]) * {"ms": 1.0, "s": 1e3}[wall[2]] >= 35
    assert "CPU of all threads" in done.stdout


def test_a_rate_that_is_none_says_what_is_allowed(routes: Path) -> None:
    for rate, says in (("5 Mbps", "Mpps"), ("-1", "must be a number above 0"), ("fast", "Mpps")):
        done = run_command("router", "run", "--table", routes, f"--rate={rate}", "--packets", "10")
        assert done.returncode == 2, done.stderr
        assert "mpps = " in done.stderr
        assert says in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="signals")
def test_ctrl_c_prints_the_report_and_leaves_a_whole_capture(tmp_path: Path, routes: Path) -> None:
    out = tmp_path / "out.pcap"
    command = [sys.executable, "-m", "wirespeed.cli", "router", "run", "--table", str(routes), "--seconds", "600"]
    command += ["--function", "ttl", "--out", str(out), "--format", "json"]
    router_run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    begun = time.monotonic()
    while not (out.exists() and out.stat().st_size > 1 << 16):
        assert router_run.poll() is None
        assert time.monotonic() - begun < 120
        time.sleep(0.02)
    router_run.send_signal(signal.SIGINT)
    said, complained = router_run.communicate(timeout=120)
    assert router_run.returncode == exits.EXIT_STOPPED, complained
    assert "Traceback" not in complained
    routed = json.loads(said)
    assert routed["stopped"] is True
    data, at, frames = out.read_bytes(), 24, 0
    while at < len(data):
        at, frames = at + 16 + struct.unpack_from("<I", data, at + 8)[0], frames + 1
    assert at == len(data), "the last record is whole"
    assert frames == routed["forwarded"] > 0


def test_only_auto_goes_on_without_a_gpu_and_says_so(routes: Path) -> None:
    common = ("router", "run", "--table", routes, "--packets", "100", "--driver", NO_DRIVER)
    auto = run_command(*common, "--backend", "auto")
    assert auto.returncode == 0
    assert "cpu is used in its place" in auto.stderr
    cuda = run_command(*common, "--backend", "cuda")
    assert cuda.returncode == 2
    assert "no GPU driver" in cuda.stderr
    assert "--backend cpu" in cuda.stderr


def test_warps_and_commits_are_of_kernels_that_stay(routes: Path) -> None:
    common = ("router", "run", "--table", routes, "--packets", "100")
    for options, says in (
        (("--mcw", "4"), "only with a GPU and a kernel that stays"),
        (("--backend", "cuda", "--mode", "graph", "--mcw", "4"), "only with a GPU and a kernel that stays"),
        (("--backend", "twin", "--commit", "host"), "only where packets are ordered"),
        (("--ordered", "--commit", "host"), "only with a kernel that stays"),
    ):
        done = run_command(*common, *options)
        assert done.returncode == 2, done.stdout
        assert says in done.stderr
    done = run_command(*common, "--backend", "twin", "--ordered", "--commit", "host")
    assert done.returncode == 0, done.stderr


def test_probe_says_why_there_is_no_gpu() -> None:
    done = run_command("router", "probe", "--driver", NO_DRIVER)
    assert done.returncode == exits.EXIT_NO_GPU
    assert NO_DRIVER in done.stdout
    assert router.probe(NO_DRIVER)["gpu"] is None


def test_bench_measures_the_cpu_and_writes_as_it_goes(tmp_path: Path, routes: Path) -> None:
    out = tmp_path / "curves.csv"
    done = run_command(
        *("router", "bench", "--cpu-only", "--table", routes, "--csv", out),
        *("--batches", "32,256", "--shares", "0.2", "--packets", "4096"),
    )
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(out.read_text().splitlines()))
    # What is carried at most comes first, of the batch in the middle before the others.
    assert [(row["mode"], row["batch"]) for row in rows] == [("cpu", "256"), ("cpu", "32")] * 2
    assert {(row["function"], row["commit"], row["warps_per_core"]) for row in rows} == {("forward", "device", "")}
    assert all(row["wrong"] == "0" for row in rows)
    workers = int(rows[0]["threads"])
    for most, shared in zip(rows[:2], rows[2:], strict=True):
        carried, offered = float(most["carried_mpps"]), float(shared["offered_mpps"])
        # Forwarding takes a worker more than 5 ns a packet; a clock that starts late gave thousands of Mpps.
        assert 0 < carried < 200 * workers
        assert offered == pytest.approx(0.2 * carried, rel=1e-3)
        # 4,096 packets take 4,095 gaps to arrive, and some of the last batch's own time.
        assert 0 < float(shared["carried_mpps"]) <= 1.001 * offered
        # Half a batch waits for its last packet.
        assert float(shared["mean_us"]) >= (int(shared["batch"]) - 1) / 2 / offered * 0.999
    assert "Best of each mode" in done.stdout
    assert done.stderr.count("wirespeed: ") >= len(rows), "a line a point"
    quiet = run_command(
        *("router", "bench", "--cpu-only", "--table", routes, "--quiet"),
        *("--batches", "32", "--shares", "0.2", "--packets", "4096"),
    )
    assert quiet.returncode == 0
    assert quiet.stderr.splitlines() == ["wirespeed: the GPU was left out as asked"], "a note, and no progress"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"ports": 0}, "ports = 0: allowed are 1 and more"),
        ({"mpps": -1.0}, "mpps = -1: must be a number above 0"),
        ({"speed": 2.0}, "speed = 2: only with a capture"),
        ({"threads": 5000}, "threads = 5000: allowed are 1 to 1024"),
        ({"interface": "nowhere0"}, "nowhere0"),
        ({"interface": "nowhere0", "ring_mib": 4}, "nowhere0"),
        ({"interface": "lo", "ring_mib": 1025}, "ring_mib = 1025: allowed are 1 to 1024 MiB"),
        ({"ring_mib": 4}, "ring_mib = 4: only with an interface"),
        ({"function": "forwad"}, "function = forwad: must be of forward, check"),
        ({"rules": "x.rules"}, "rules = x.rules: only with the function classify"),
        ({"function": "check,check,check,check,check,check,check"}, "a chain has 1 to 6 of them"),
        ({"function": "fragment,ttl"}, "function = fragment,ttl: fragment must be the last of a chain"),
        ({"function": "fragment", "mtu": 67}, "fragment.mtu = 67: allowed is 68 to 65535"),
        ({"mtu": 1500}, "mtu = 1500: only with the function fragment"),
        ({"structure": "poptrie"}, "only with the function lookup"),
        ({"capture": "nowhere.pcap"}, "nowhere.pcap"),
    ],
)
def test_settings_that_cannot_be_are_named(settings: dict[str, object], says: str, routes: Path) -> None:
    with pytest.raises((InputError, OSError)) as error:
        router.run(table=routes, packets=100, **settings)
    assert says in str(error.value)


WIRE = """
import json, select, socket, struct, subprocess, sys, time

for command in (
    "sysctl -qw net.ipv6.conf.all.disable_ipv6=1",
    "ip link add veth0 type veth peer name veth1",
    "ip link set veth0 up",
    "ip link set veth1 up",
):
    subprocess.run(command.split(), check=True)
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("veth1", 0))
router = subprocess.Popen(
    [sys.executable, "-m", "wirespeed.cli", "router", "run", "--interface", "veth0", "--reflect",
     "--table", sys.argv[1], "--packets", "64", "--seconds", "120", "--timeout", "100", "--ordered",
     "--format", "json", *sys.argv[2:]],
    stdout=subprocess.PIPE, text=True,
)
def checksum(header):
    total = sum(struct.unpack(">10H", header))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 46, 7, 0, 9, 17, 0, b"\\xc0\\0\\2\\1", b"\\n\\0\\0\\1")
header = header[:10] + struct.pack(">H", checksum(header)) + header[12:]
frame = b"\\x0a" * 12 + b"\\x08\\0" + header + bytes(26)
back = 0
while router.poll() is None:
    wire.send(frame)
    while select.select([wire], [], [], 0.02)[0]:
        seen, where = wire.recvfrom(2048)
        # Its own frames come back to the socket as outgoing.
        if where[2] != socket.PACKET_OUTGOING and seen[14:34] != header:
            assert seen[22] == 8 and checksum(seen[14:34]) == 0, seen
            assert seen[:2] == b"\\2\\0" and len(seen) == 60, seen
            back += 1
print(json.dumps({"routed": json.loads(router.stdout.read()), "back": back}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="AF_PACKET is Linux")
@pytest.mark.parametrize("how", [(), ("--ring", "1")], ids=["a call a packet", "by a ring"])
def test_frames_of_an_interface_are_routed_and_sent_back(routes: Path, how: tuple[str, ...]) -> None:
    inside = ["unshare", "--map-root-user", "--net"]
    try:
        able = subprocess.run(
            [*inside, *["ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1"]],
            capture_output=True,
            text=True,
        )
    except FileNotFoundError as e:
        pytest.skip(f"no network namespaces: {e}")
    if able.returncode != 0:
        pytest.skip(f"no network namespaces: {able.stderr.strip()}")
    done = subprocess.run(
        [*inside, sys.executable, "-c", WIRE, str(routes), *how], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["routed"]["packets"] == 64
    assert seen["routed"]["forwarded"] == 64
    assert seen["routed"]["delay"]["packets"] == 64
    assert seen["back"] >= 60, "frames come back with one hop less"
