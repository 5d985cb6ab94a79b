"""Sweeps on a cluster of Dask: a real one, of several processes."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings

import pytest

import smaller
import wirespeed
from wirespeed.sweep import study

distributed = pytest.importorskip("distributed")

SMALL = {"run.packets": 2000, "run.warmup": 500, "run.curve": [], "function.forward.prefixes": 1000}
LOADS = {"traffic.load": "0.1..1.0/10"}

# Of the cluster's own threads and sockets, as it goes down.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    with (
        warnings.catch_warnings(action="ignore"),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as found,
    ):
        yield found


def test_a_cluster_gives_what_local_processes_give(cluster, tmp_path):
    address = cluster.scheduler_address
    there = wirespeed.sweep("forwarding", LOADS, set=SMALL, engine="dask", scheduler=address, out=tmp_path / "there")
    here = wirespeed.sweep("forwarding", LOADS, set=SMALL, engine="local", jobs=2, out=tmp_path / "here")
    for found, folder in ((there, "there"), (here, "here")):
        found.write(tmp_path / folder)
    assert there.ran == 10
    files = [tmp_path / folder / study.RESULTS_FILE for folder in ("there", "here")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_worker_of_the_cluster_may_die(cluster):
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        pids = client.run(os.getpid)
        told = []

        def kill_one(phase, done, total, note):
            if done >= 2 and not told:
                told.append(done)
                os.kill(next(iter(pids.values())), signal.SIGKILL)

        found = wirespeed.sweep(
            "forwarding",
            LOADS,
            set={**SMALL, "run.packets": 20_000},
            engine="dask",
            scheduler=cluster.scheduler_address,
            progress=kill_one,
        )
    assert told
    assert found.failed == 0
    assert len(found.rows) == 10


def test_a_scheduler_that_is_killed_ends_the_study_and_nothing_is_kept_for_failed(tmp_path):
    port = smaller.free_port()
    dask, quiet = [sys.executable, "-m", "dask"], {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen([*dask, "scheduler", "--host=127.0.0.1", f"--port={port}", "--no-dashboard"], **quiet)
    address = f"tcp://127.0.0.1:{port}"
    worker = subprocess.Popen([*dask, "worker", address, "--nthreads=1", "--no-dashboard", "--no-nanny"], **quiet)
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                threading.Event().wait(0.1)

        def kill(phase, done, total, note):
            if done >= 2:
                scheduler.kill()

        settings = {**SMALL, "run.packets": 50_000}
        with pytest.raises(wirespeed.InputError, match="run the study again"):
            wirespeed.sweep(
                "forwarding", LOADS, set=settings, engine="dask", scheduler=address, progress=kill, out=tmp_path
            )
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    again = wirespeed.sweep("forwarding", LOADS, set=settings, jobs=1, out=tmp_path)
    assert again.failed == 0
    assert again.ran < 10


def test_a_cluster_with_another_build_is_refused(cluster):
    def pretend(build):
        from wirespeed.sweep import work

        work.build = build

    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        client.wait_for_workers(2)
        client.run(pretend, lambda: "0.0.1 (other)")
        with pytest.raises(wirespeed.InputError, match=r"has wirespeed 0\.0\.1 \(other\)"):
            wirespeed.sweep("forwarding", LOADS, set=SMALL, engine="dask", scheduler=cluster.scheduler_address)


def test_a_scheduler_that_does_not_answer_is_told(monkeypatch):
    from wirespeed.sweep import cluster as dask

    monkeypatch.setattr(dask, "_ANSWERS_WITHIN_S", 0.5)
    with pytest.raises(wirespeed.InputError, match="no scheduler of Dask answers there"):
        wirespeed.sweep("forwarding", LOADS, set=SMALL, engine="dask", scheduler="tcp://127.0.0.1:9")


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("localhost", "needs a host and a port"),
        ("tcp://10.0.0.1:nine", "needs a host and a port"),
        ("foo://1", "foo:// must be one of"),
        ("tpc://localhost:8786", "did you mean `tcp`"),
        ("", "needs a host and a port"),
    ],
)
def test_what_is_no_address_is_told_at_once(address, says, monkeypatch):
    from wirespeed.sweep import cluster as dask

    monkeypatch.setattr(dask, "_CONNECT", None)  # no client is made
    with pytest.raises(wirespeed.InputError, match=says):
        dask.Dask(address).start(())
