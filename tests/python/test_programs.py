"""Real programs: started under a warden, read, measured, tuned. Any program will do but where it says testpmd."""

from __future__ import annotations

import http.server
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from wirespeed import cli
from wirespeed.errors import TargetError
from wirespeed.programs import hugepages, readings, testpmd
from wirespeed.programs.process import Process
from wirespeed.programs.testpmd import Sampling, Setup
from wirespeed.programs.windows import estimate
from wirespeed.tune.choice import Choice, forward_loop
from wirespeed.tune.programs import NO_LOSS, spearman, tune_program
from wirespeed.tune.search import Plan
from wirespeed.tune.template import Template, Timing

NEEDS_TESTPMD = pytest.mark.skipif(
    shutil.which(testpmd.PROGRAM) is None, reason="dpdk-testpmd is not installed: the last section of README.md"
)
PYTHON = sys.executable
# Best at a ring of 5; refuses 13, dies of 66, hangs at 77.
PROGRAM = """
import itertools, os, sys, time
ring = int(sys.argv[1])
if ring == 13: sys.exit("error: ring 13 is not allowed")
if ring == 66: os.kill(os.getpid(), 9)
if ring == 77: time.sleep(1000)
for _ in range(20):
    print(f"Mpps: {10 - abs(ring - 5)}", flush=True)
    time.sleep(0.002)
"""
QUICK = Sampling(window_s=0.02, least=4, most=8, within=0.05, warmup_s=0.02)


def template(tmp_path: Path, reads: str = "stdout:Mpps: ([0-9.]+)", **timing: float) -> Template:
    (tmp_path / "prog.py").write_text(PROGRAM)
    command = f"{PYTHON} {tmp_path}/prog.py {{nic.ring=1}}"
    return Template(command, readings.parse(reads, False), timing=Timing(**({"run_s": 0.2} | timing)))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition, within_s: float = 10.0) -> None:
    ends = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_what_a_program_prints_is_waited_for() -> None:
    with Process([PYTHON, "-c", "print('ready'); print(input())"]) as process:
        process.expect("ready", 10)
        since = process.printed
        process.say("hello\n")
        process.expect("hello", 10, since)
        until(lambda: process.ended is not None)
        assert process.ended == 0


def test_leaving_kills_children_that_left_their_group(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "print('child', child.pid, 'of', os.getpid(), flush=True)\ntime.sleep(1000)"
    )
    with Process([PYTHON, "-c", code]) as process:
        found = process.expect(r"child (\d+) of (\d+)", 10)
    pids = [int(found[1]), int(found[2])]
    until(lambda: not any(alive(pid) for pid in pids))


def test_a_killed_warden_leaves_no_program_behind() -> None:
    with Process(["sleep", "1000"]) as process:
        os.kill(process._warden.pid, signal.SIGKILL)
        until(lambda: process.ended is not None)
        assert alive(process.pid)
    until(lambda: not alive(process.pid))


def test_a_warden_takes_files_of_any_number() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1200
    if hard != resource.RLIM_INFINITY and hard < 2 * wanted:
        pytest.skip(f"only {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * wanted), hard))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(wanted)]
    try:
        with Process(["sleep", "1000"]) as process:
            process.sleep(0.2)
            assert process.ended is None
        assert not alive(process.pid)
    finally:
        for number in taken:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_killed_search_leaves_no_program_behind(tmp_path: Path) -> None:
    code = (
        "import time\nfrom wirespeed.programs.process import Process\n"
        "process = Process(['sleep', '1000'])\nprint(process.pid, flush=True)\ntime.sleep(1000)"
    )
    with subprocess.Popen([PYTHON, "-c", code], stdout=subprocess.PIPE, text=True) as search:
        assert search.stdout is not None
        pid = int(search.stdout.readline())
        assert alive(pid)
        search.send_signal(signal.SIGKILL)
    until(lambda: not alive(pid))


def test_hugepages_are_given_back_after_kill_9_too(tmp_path: Path) -> None:
    for name, value in (("nr_hugepages", "3"), ("free_hugepages", "1")):
        (tmp_path / name).write_text(value)
    with hugepages.at_least(4 * hugepages.BYTES, tmp_path) as enough:
        assert not enough  # a made kernel gives none
        assert (tmp_path / "nr_hugepages").read_text() == "6"
    assert (tmp_path / "nr_hugepages").read_text() == "3"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom wirespeed.programs import hugepages\n"
        "with hugepages.at_least(4 << 21, Path(sys.argv[1])):\n    print('in', flush=True)\n    time.sleep(1000)"
    )
    with subprocess.Popen([PYTHON, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True) as search:
        assert search.stdout is not None
        assert search.stdout.readline() == "in\n"
        assert (tmp_path / "nr_hugepages").read_text() == "6"
        search.send_signal(signal.SIGKILL)
    until(lambda: (tmp_path / "nr_hugepages").read_text() == "3")


def test_cpu_time_is_that_of_the_thread_that_works() -> None:
    code = "print('go', flush=True)\nwhile True: pass"
    with Process([PYTHON, "-c", code]) as process:
        process.expect("go", 10)
        thread = process.polling_thread()
        before = process.cpu_ns(thread)
        process.sleep(0.2)
        assert 0 < process.cpu_ns(thread) - before < 0.4e9
        with pytest.raises(TargetError, match="no thread is called 'rte-worker'"):
            process.polling_thread("rte-worker")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["/nowhere/prog"], "cannot be started: No such file"),
        ([PYTHON, "-c", "raise SystemExit('it will not do')"], "ended with exit code 1 .*it will not do"),
        ([PYTHON, "-c", "import os; os.abort()"], "was killed by signal 6"),
        ([PYTHON, "-c", "import time; print('busy'); time.sleep(100)"], "not printed .* killed with its children"),
    ],
)
def test_a_program_that_fails_says_how(command: list[str], words: str) -> None:
    with pytest.raises(TargetError, match=words), Process(command) as process:
        process.expect("never", 0.5)


def test_the_upper_quartile_leaves_slow_windows_out() -> None:
    quiet = [100.0, 101.0, 99.0, 100.5, 100.2, 99.8, 100.1, 99.9, 100.3, 99.7, 100.4, 99.6]
    disturbed = [*quiet[:6], *(each / 2 for each in quiet[6:])]
    assert abs(estimate(disturbed).value / estimate(quiet).value - 1) < 0.01
    assert estimate(quiet).is_within < 0.01
    assert estimate(quiet[:5]).half_width is None


def test_the_interval_covers_the_quantile_as_often_as_it_says() -> None:
    import random

    drawn = random.Random(1)
    true, n, covered = 0.75, 30, 0
    for _ in range(400):
        found = estimate([drawn.random() for _ in range(n)])
        assert found.half_width is not None
        covered += abs(found.value - true) <= 2 * found.half_width
    assert covered / 400 > 0.93


def test_numbers_are_read_from_stdout_and_prometheus() -> None:
    page = b'# HELP x\nrx_total{port="0"} 5\nrx_total{port="1"} 7\nrx_total{port="1",q="2"} 1e2\nother 3\n'

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server, Process(["sleep", "100"]) as process:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        assert readings.parse(f"prometheus:{url}#rx_total", True).read(process) == 112
        assert readings.parse(f'prometheus:{url}#rx_total{{port="1"}}', True).read(process) == 107
        with pytest.raises(TargetError, match=r"no series 'rx_totl' .did you mean `rx_total`"):
            readings.parse(f"prometheus:{url}#rx_totl", True).read(process)
        server.shutdown()
    stdout = readings.Stdout(r"rate=([\d,.]+)", False)
    assert stdout.all("rate=1,000.5\nrate=oops rate=2\n") == [1000.5, 2]
    # What is no number would be better and worse than all others at once.
    assert readings.Stdout(r"rate=(\S+)", False).all("rate=nan rate=inf rate=3") == [3]
    assert readings.Prometheus("", "x", True).find("x NaN\n") is None


def test_an_answer_that_is_cut_off_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "dpdk" / "p1"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(folder / "dpdk_telemetry.v2"))
        server.listen()

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.send(b'{"max_output_len": 16384}')
                client.recv(1024)
                client.send(b'{"/ethdev/list": [0')

        threading.Thread(target=serve, daemon=True).start()
        with Process(["sleep", "100"]) as process, pytest.raises(TargetError, match="does not answer"):
            readings.parse("telemetry:p1", False).read(process)


def test_measurements_of_a_program_that_was_changed_are_not_taken_for_its_own(tmp_path: Path) -> None:
    before = template(tmp_path).identity
    assert template(tmp_path, "stdout:Gbps").identity != before
    with (tmp_path / "prog.py").open("a") as script:
        script.write("# another\n")
    changed = Template(
        f"{PYTHON} {tmp_path}/prog.py {{nic.ring=1}}",
        readings.parse("stdout:Mpps: ([0-9.]+)", False),
        timing=Timing(run_s=0.2),
    )
    assert changed.identity != before


def test_dpdk_telemetry_is_read_by_its_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "dpdk" / "p1"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    answers = {"/ethdev/list": [0, 1], "/ethdev/stats,0": {"opackets": 5}, "/ethdev/stats,1": {"opackets": 8}}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(folder / "dpdk_telemetry.v2"))
        server.listen()

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.send(json.dumps({"version": "DPDK 22.11", "pid": 1, "max_output_len": 16384}).encode())
                    while command := client.recv(1024).decode():
                        client.send(json.dumps({command.partition(",")[0]: answers[command]}).encode())

        threading.Thread(target=serve, daemon=True).start()
        with Process(["sleep", "100"]) as process:
            assert readings.parse("telemetry:p1", False).read(process) == 13
            assert readings.parse("telemetry:nobody", False).read(process) is None
            with pytest.raises(TargetError, match="no counter 'opacket'"):
                readings.parse("telemetry:p1/opacket", False).read(process)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "command"], "wants --command"),
        (["--target", "command", "--command", "x {a=1}"], "wants --command"),
        (["--target", "command", "--command", "x", "--reads", "stdout:x"], "no place for a setting"),
        (["--target", "command", "--command", "x {a}", "--reads", "stdout:x"], "has no value of the program as it is"),
        (["--target", "command", "--command", "x {a=1}", "--reads", "stdout:("], "no regular expression"),
        (["--target", "command", "--command", "x {a=1}", "--reads", "stdin:x"], "did you mean `stdout`"),
        (["--target", "command", "--command", "x {a=1}", "--reads", "stdout:x", "--knob", "b=1"], "no place for it"),
        (["--target", "command", "--command", "x {a=1}", "--reads", "stdout:x"], "nothing to tune"),
        (["--target", "testpmd", "--command", "x"], "--command: is for --target command"),
        (["--target", "testpmd", "--knob", "nic.rx_descriptors=100"], "must be a power of two"),
        (["--target", "testpmd", "--knob", "mempool.size=100,200"], "need .* or more"),
        (["--target", "testpmd", "--knob", "nic.rx_descriptor=128"], "is no setting of testpmd"),
        (["--target", "testpmd", "--size", "9000"], "--size 9000"),
        (["--target", "testpmd", "--cpu", "4096"], "--cpu 4096: must be one of"),
        (["--target", "testpmd", "--set", "nic.burst=8"], "--set: is for scenarios"),
        (["--target", "testpmd", "--machine", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (["forwarding", "--target", "testpmd"], "give a SCENARIO"),
        ([], "give a SCENARIO"),
    ],
)
def test_bad_input_ends_with_2_before_anything_is_started(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(*given: object, **named: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr(Process, "__init__", start)
    monkeypatch.setattr(testpmd, "require", lambda: None)
    monkeypatch.setattr(sys, "argv", ["wirespeed", "tune", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == cli.EXIT_INPUT
    assert re.search(words, " ".join(capsys.readouterr().err.split()))


def test_a_command_is_tuned_from_end_to_end(tmp_path: Path) -> None:
    found = tune_program(
        template(tmp_path),
        {"nic.ring": [1, 3, 5, 13]},
        Plan(metric="highest", journal=tmp_path / "journal"),
        starts=1,
    )
    document = found.document
    assert document["best"]["value"] == 10
    assert document["base"]["value"] == 6
    assert found.command.endswith("prog.py 5")
    assert document["died"] == []
    (refused,) = [point for point in document["points"] if point["infeasible"]]
    assert "ring 13 is not allowed" in refused["infeasible"]
    again = tune_program(
        template(tmp_path),
        {"nic.ring": [1, 3, 5, 13]},
        Plan(metric="highest", journal=tmp_path / "journal"),
        starts=1,
    )
    assert again.document["ran"] == 0
    assert again.document["points"] == document["points"]
    files = found.write(tmp_path / "out")
    assert "<svg" not in (page := files[1].read_text()) or "http" not in page.replace("http://www.w3.org", "")


def test_of_what_should_be_low_the_lower_quartile_is_told(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(
        "import itertools, time\n"
        "for i in itertools.count():\n"
        "    print('delay:', (10, 10, 90)[i % 3], flush=True)\n"
        "    time.sleep(0.005)\n"
    )
    command = f"{PYTHON} {tmp_path}/prog.py {{nic.ring=1}}"

    def told(less: bool) -> float:
        reading = readings.parse(r"stdout:delay: (\d+)", False)
        found = Template(command, reading, timing=Timing(run_s=0.5), less=less).evaluate({}, lambda: False)
        return found.values["value"]

    assert told(less=True) == 10
    assert told(less=False) == 90


def test_what_dies_or_hangs_is_recorded_and_told(tmp_path: Path) -> None:
    found = tune_program(template(tmp_path, timeout_s=0.5), {"nic.ring": [5, 66, 77]}, Plan(metric="highest"), starts=1)
    assert found.document["best"]["value"] == 10
    assert len(found.document["died"]) == 2
    assert any("signal 9" in each for each in found.document["died"])
    assert any("no number within 0.5 s" in each for each in found.document["died"])


def test_a_program_that_dies_as_it_is_ends_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prog.py").write_text(PROGRAM)
    command = f"{PYTHON} {tmp_path}/prog.py {{nic.ring=66}}"
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "wirespeed",
            "tune",
            "--target",
            "command",
            "--command",
            command,
            "--reads",
            "stdout:Mpps: (.*)",
            "--knob",
            "nic.ring=1,2",
            "-q",
        ],
    )
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 3
    assert "signal 9" in capsys.readouterr().err


def test_ranks_with_ties_are_the_mean() -> None:
    assert spearman([(1, 5), (2, 4), (3, 3)]) == -1
    assert spearman([(1, 1), (1, 1), (2, 2), (3, 3)]) == 1
    assert spearman([(1, 1), (2, 2)]) is None
    assert spearman([(1, 1), (1, 2), (1, 3)]) is None


def test_settings_become_a_command_line() -> None:
    made = Setup(1500, "memif", "paper")
    line = " ".join(made.command({"mempool.kind": "lifo", "nic.burst": 64}, "p"))
    for part in ("rsize=12", "--total-num-mbufs=262140", "--mbcache=0", "--burst=64", "--in-memory"):
        assert part in line
    assert line.index("--mbuf-pool-ops-name=stack") < line.index(" -- ")
    own = Setup(1500, "memif", "testpmd").command({})
    assert not any(each.startswith("--total-num-mbufs") for each in own)
    assert forward_loop(Setup(64, "null").whole({}), "null", 64)["pool"] == 163_456


def test_targets_that_are_missing_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(TargetError, match=r"apt-get install .*dpdk-dev"):
        testpmd.require()
    with pytest.raises(TargetError, match="vpp: is not installed"):
        Choice("vpp").program([])
    program, _ = Choice("ovs-dpdk").program([])
    with pytest.raises(TargetError, match="openvswitch-switch-dpdk"), program.prepared():
        pass


@NEEDS_TESTPMD
@pytest.mark.parametrize("devices", ["null", "memif"])
def test_testpmd_forwards_and_nothing_is_lost(devices: testpmd.Devices) -> None:
    made = Setup(256, devices)
    settings = {"mempool.size": 4096, "mempool.cache": 64}
    with hugepages.at_least(made.bytes(settings)):
        found = made.measure(settings, QUICK)
    assert found.rate.value > 1e5
    assert found.loss < 1e-3


@NEEDS_TESTPMD
def test_testpmd_loses_what_a_short_ring_cannot_take() -> None:
    made = Setup(256, "memif")
    settings = {"mempool.size": 8192, "nic.rx_descriptors": 128, "nic.burst": 512}
    with hugepages.at_least(made.bytes(settings)):
        assert 0.6 < made.measure(settings, QUICK).loss < 0.85


@NEEDS_TESTPMD
def test_testpmd_that_is_killed_is_told() -> None:
    made = Setup(256, "null")
    settings = {"mempool.size": 2048}
    with hugepages.at_least(made.bytes(settings)), made.started(settings) as process:
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(TargetError, match="was killed by signal 9"):
            process.sleep(5)


STAND_IN = """#!/bin/sh
printf '%s\\n' "$@" >> "$ARGUMENTS"
for word; do case $word in *socket=*) path=${word#*socket=}; path=${path%%,*}
  [ "$path" != "${path#/}" ] && [ -d "$(dirname "$path")" ] || exit 9;; esac; done
"""


def as_measured(words: list[str]) -> list[str]:
    """A command line without what each start has of its own: the prefix, the socket's folder, the prompt."""
    told = [re.sub("^--file-prefix=.*", "--file-prefix", re.sub(r"socket=/[^,]*", "socket", word)) for word in words]
    return [word for word in told if word != "-i"]


@pytest.mark.parametrize("huge", [True, False])
@pytest.mark.parametrize("devices", ["memif", "null"])
def test_the_printed_lines_run_what_was_measured(
    devices: testpmd.Devices, huge: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shell, with a program in testpmd's place that keeps its arguments, and a kernel's folder of hugepages."""
    measured: list[list[str]] = []

    class Kept(Process):
        def __init__(self, command: list[str]) -> None:
            measured.append(command)
            raise TargetError("is not to run")

    pages = tmp_path / "huge pages"
    pages.mkdir()
    (pages / "free_hugepages").write_text("3\n")
    (pages / "nr_hugepages").write_text("10\n")
    program = tmp_path / "bin" / testpmd.PROGRAM
    program.parent.mkdir()
    program.write_text(STAND_IN)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(testpmd, "Process", Kept)
    monkeypatch.setattr(hugepages, "ROOT", pages)
    made, settings = Setup(1500, devices, "paper"), {"mempool.size": 8192, "mempool.cache": 250, "mempool.kind": "lifo"}
    with pytest.raises(TargetError, match="not to run"):
        made.measure(settings, QUICK, huge=huge)
    arguments = tmp_path / "arguments"
    found = subprocess.run(
        ["sh", "-e", "-c", made.script(settings, huge)],
        env={**os.environ, "ARGUMENTS": str(arguments)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (found.returncode, found.stderr) == (0, "")
    ran = arguments.read_text().splitlines()
    assert as_measured([testpmd.PROGRAM, *ran]) == as_measured(measured[0])
    # 8192 mbufs of 2368 bytes and 48 MiB are 34 pages of which 3 are free.
    assert (pages / "nr_hugepages").read_text().strip() == ("41" if huge else "10")
    (pages / "free_hugepages").write_text("99\n")
    subprocess.run(
        ["sh", "-e", "-c", made.script(settings, huge)], env={**os.environ, "ARGUMENTS": "/dev/null"}, check=True
    )
    assert (pages / "nr_hugepages").read_text().strip() == ("41" if huge else "10")


@NEEDS_TESTPMD
def test_the_printed_lines_forward_over_the_memif() -> None:
    """Pasted as they are, testpmd forwards between all four devices. With `--no-huge`, which needs no pages."""
    made, settings = Setup(1500), {"mempool.size": 8192, "mempool.cache": 64}
    with subprocess.Popen(
        ["sh", "-e", "-c", made.script(settings, huge=False)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdin is not None
        time.sleep(4)
        text, _ = process.communicate("\n", timeout=60)
    assert process.returncode == 0, text
    received = [int(n) for n in re.findall(r"Forward statistics for port \d+ .*?RX-packets: (\d+)", text, re.DOTALL)]
    assert len(received) == 4, text
    assert all(received), text


@NEEDS_TESTPMD
def test_a_cold_pool_costs_testpmd_and_tuning_finds_that() -> None:
    """From the paper's default there is much to gain on every machine that this was tried on."""
    from wirespeed.tune.real import Forwarder

    target = Forwarder(Setup(1500, "memif", "paper"), QUICK, 262_140)
    knobs = {"mempool.size": [8192, 262_140], "mempool.cache": [0, 250]}
    found = tune_program(target, knobs, Plan(loss_limit=NO_LOSS, evaluations=3), starts=1).document
    assert found["best"]["gain_pct"] > 30
    assert "\ndpdk-testpmd " in found["command"]
    assert found["died"] == []
