"""The same commands with less to do, so that all of what documents show can run in a test.

What is tried is that a command does what it is said to do, not what comes out: fewer packets, seeds, evaluations and
claims, smaller tables. An option that a page gives is left as it is, except for those that say how much is done
(`--until`, `--grid`, `--seconds`) and for addresses.
"""

from __future__ import annotations

import contextlib
import functools
import random
import re
import socket
import warnings
from pathlib import Path
from typing import Any

from wirespeed.advise import techniques

SHORT = ["run.packets=2000", "run.curve=[]", "run.search_packets=1000", "run.search_resolution=0.3"]
MADE = ["function.forward.prefixes=5000"]
UPF = ["function.upf.load.ues=200", "function.upf.load.pdrs=4"]
FEW = ("--packets=500", "--warm-up=200", "--seeds=1")
LONG = re.compile(r"^(run\.packets=)(\d+k|\d+M|\d{5,})$")
"""How many packets the runs of a sweep have."""
TRIED = ("short_rings", "core")
"""The techniques that `advise` tries."""
UNTRIED = tuple(name for name, *_ in techniques._ALL if name not in TRIED)
ADVICE = {
    **dict.fromkeys(("_OWN", "_AT_LINE", "_SEARCHED"), 1000),
    "_LEAST_TRIAL": 5000,  # below that a trial is too short to tell whether queues grow
    "_CONFIRMED_WITHIN": "carried_mpps 20%",
}
"""What `wirespeed.advise.bench` runs beside the comparison."""
PORT = "8786"
"""Dask's, in the place of which a free one is taken."""
# Of each study of a paper one claim that takes seconds.
CLAIMS = {
    "2003-isca-hasan": ["--claim", "rows-l-alloc-input"],
    "2010-tc-duarte": ["--claim", "area-line-16"],
    "2020-access-korikawa": ["--claim", "slices-half", "--reading", "literal"],
    "2024-5gc2ache": ["--claim", "resq_ring"],
}


def smaller(words: list[str]) -> list[str]:
    """The words behind `wirespeed`, with less to do."""
    # A folder of results is an operand, but not where `--out` names the one that a command before has written.
    has_folder = any(Path(word).is_dir() for word, before in zip(words[1:], words, strict=False) if before != "--out")
    if "--scheduler" in words:
        at = words.index("--scheduler")
        words = [*words[: at + 1], scheduler(words[at + 1]), *words[at + 2 :]]
    match words:
        case ["run" | "compare" | "sweep", *_] if not has_folder:
            # Short runs vary so much that it would take the most replications there may be.
            words = without(words, "--until", 1)
            given = {word.partition("=")[0] for word in words}
            sets = [s for s in SHORT + MADE if s.partition("=")[0] not in given]
            # Enough for a plan of sampling.
            words = ["run.packets=400k" if word == "run.packets=10M" else word for word in words]
            if words[0] == "sweep":
                # With a warm-up that is said, no machine has to settle before the points begin.
                words, sets = [LONG.sub(r"\g<1>5000", word) for word in words], [*sets, "run.warmup=2000"]
            return setting(words, sets + (UPF if "upf" in words else []))
        case ["accuracy", *_] if not any(word in words for word in ("--template", "mine.csv")):
            # All rows are predicted and held by `tests/house/accuracy.py`: of those that a page asks for one.
            return [*without(words, "--only", 1), "--only", "128 descriptors"]
        case ["slices", *_]:
            packets = ["--packets", "300"] if "--table" in words and "--packets" not in words else []
            return [*words, *packets, "--set", "requests=5000"]
        case ["microengines", *_]:
            return [*words, *(x for x in FEW if x not in words)]
        case ["gpu", *_]:
            few = ["workload.packets=256", "workload.routes.prefixes=5000", "workload.strings.count=64"]
            return setting([*words, "--packets", "512" if "--vary" in words else "2048"], few)
        case ["tune", *_] if "--target" in words:
            # Each point is simulated, too, where there is a machine: of knobs two, with two values each.
            two = ["--knob", "nic.rx_descriptors=256,1024", "--knob", "nic.burst=32,64"]
            words = [*words, *(two if "--machine" in words and "--knob" not in words else [])]
            return [*words, "--evaluations", "4", "--starts", "1", "--run-for", "0.1", "--warmup", "0"]
        case ["tune", *_]:
            few = ["run.packets=1000", "run.warmup=500", *(UPF if "upf" in words else [])]
            return setting([*without(words, "--grid", 0), "--evaluations", "4"], few)
        case ["advise", *_]:
            # Of the techniques two, on a machine that is filled soon.
            few = ["machine.cores=1", "mempool.size=8192", "run.warmup=9000", *SHORT[2:]]
            # A small made table has no route for a capture's packets.
            few += [] if "--capture" in words else ["traffic.profile=min64", *MADE]
            return setting([*words, "--packets", "1000", *(x for each in UNTRIED for x in ("--without", each))], few)
        case ["sensitivity", *_] if "--packets" not in words:
            return [*words, "--packets", "1000"]
        case ["size", *_]:
            few = ["run.warmup=6000", *(UPF if "upf" in words else [])]
            few += [] if "--capture" in words else MADE
            return setting([*words, *([] if "--packets" in words else ["--packets", "5000"])], few)
        case ["router", "run", *_]:
            return [{"--seconds": "--packets", "5": "500"}.get(word, word) for word in words]
        case ["router", "bench", *_]:
            return [*words, "--packets", "8192"]
        case ["memory", "curve", *_]:
            few = (("--points", "5"), ("--accesses", "256"))
            return [*words, *(x for each in few if each[0] not in words for x in each)]
        case ["memory", "buffers", *_]:
            return [*words, "--memory", "ddr4-3200aa", "--order", "fr-fcfs", "--page", "open", "--seeds", "1"]
        case ["copies", "messages", *_]:
            return setting(words, ["workload.rounds=2"])
        case ["copies", "receive", *_] if "--capture" not in words:
            return [*words, "--capture", "trace.pcap.gz"]
        case ["papers", "run", "2011-dac-hermes", *_]:
            return [*words, "--reading", "letter", "--claim", "storage"]
        case ["papers", "run", paper, *_]:
            claims = CLAIMS.get(paper, [])
            return [*words, *(claims[:2] if "--reading" in words else claims)]
    return words


def setting(words: list[str], sets: list[str]) -> list[str]:
    """With settings behind those that stand there."""
    return [*words, *(x for each in sets for x in ("--set", each))]


def without(words: list[str], option: str, values: int) -> list[str]:
    """Without an option that has so many values."""
    if option not in words:
        return words
    at = words.index(option)
    return words[:at] + words[at + values + 1 :]


def scheduler(address: str) -> str:
    """Of this machine the one that a page has started; one in this process for that of another machine."""
    if "127.0.0.1" in address:
        return address.replace(PORT, page_port())
    return str(cluster().scheduler_address)


@functools.cache
def page_port() -> str:
    """The port in the place of the one that pages name."""
    return free_port()


def free_port() -> str:
    """A free port, which the system gives nobody before it is used: those that it gives begin at 32,768."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            return str(port)
    raise RuntimeError("of 100 ports between 20000 and 32000 none is free")


@functools.cache
def cluster() -> Any:
    """A cluster in this process, for pages that name one."""
    import distributed

    with warnings.catch_warnings(action="ignore"):
        return distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, protocol="tcp://", dashboard_address=None
        )


def end() -> None:
    """Ends the cluster, if there is one: its threads draw random numbers, which tests of properties do not like."""
    if cluster.cache_info().currsize:
        cluster().close()
        cluster.cache_clear()
