#!/usr/bin/env python3
"""DIR-24-8 against rte_lpm of the installed DPDK, side by side.

Builds both programs, gives both the same routes and keys, runs them in turn, and prints the medians
in million lookups a second with their ratios. Both use pages of the same size; C is compiled with
-O3 -march=native, Rust as released (baseline x86-64) unless --native is given. Ends with 1 if an
answer differs, 2 if something is missing.

Needs Debian's dpdk-dev (pkg-config libdpdk), cargo, and the table and trace of ../shared/data.
"""

import argparse
import gzip
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
from array import array
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEYS = {
    "prefixes": "random addresses of random prefixes of the table",
    "trace": "destinations of the trace, in order, repeated",
    "random": "random 32-bit numbers",
}


def missing(what: str) -> None:
    print(f"benches/lpm: not run: {what}", file=sys.stderr)
    sys.exit(2)


def read_routes(path: Path) -> list[tuple[int, int, int]]:
    """IPv4 prefixes in order of length, as rte_lpm is quickest to add; next hops 0 to 30000 in turn."""
    prefixes = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            if "." in line:
                address, length = line.split("/")
                a, b, c, d = map(int, address.split("."))
                prefixes.append((int(length), a << 24 | b << 16 | c << 8 | d))
    prefixes.sort()
    return [(address, length, i % 30001) for i, (length, address) in enumerate(prefixes)]


def read_destinations(path: Path) -> list[int]:
    data = gzip.open(path).read()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at, found = 24, []
    while at + 16 <= len(data):
        (kept,) = struct.unpack_from(order + "I", data, at + 8)
        frame = data[at + 16 : at + 16 + kept]
        at += 16 + kept
        ip = 18 if frame[12:14] == b"\x81\x00" else 14
        if frame[ip - 2 : ip] == b"\x08\x00" and len(frame) >= ip + 20:
            found.append(int.from_bytes(frame[ip + 16 : ip + 20], "big"))
    return found


def write_words(path: Path, words: array) -> None:
    assert words.itemsize == 4
    if sys.byteorder == "big":
        words.byteswap()
    path.write_bytes(words.tobytes())


def prepare(out: Path, data: Path, n: int) -> None:
    routes = read_routes(data / "tables/full_table_v4v6.txt.gz")
    write_words(out / "routes.bin", array("I", (word for route in routes for word in route)))
    rng = random.Random(24_8)
    picks = rng.choices(routes, k=n)
    inside = (address | rng.getrandbits(32) >> length for address, length, _ in picks)
    write_words(out / "prefixes.bin", array("I", inside))
    trace = read_destinations(data / "traces/isp_nz_20100113.pcap.gz")
    write_words(out / "trace.bin", array("I", (trace * (n // len(trace) + 1))[:n]))
    write_words(out / "random.bin", array("I", (rng.getrandbits(32) for _ in range(n))))


def run(command: list[str], **kwargs) -> str:
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, **kwargs)
    if done.returncode:
        sys.exit(f"benches/lpm: {' '.join(command)} ended with {done.returncode}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = ROOT.parent / "shared/data"
    parser.add_argument("--data", type=Path, default=data, help="folder with tables/ and traces/")
    parser.add_argument("--out", type=Path, help="folder for programs and inputs, kept (default: in cargo's target)")
    parser.add_argument("--rounds", type=int, default=7, help="how often the two programs run in turn")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each kind in one run")
    parser.add_argument("--keys", type=int, default=1 << 22, help="keys of each kind")
    parser.add_argument("--pages", default="huge,base", help="page sizes, of huge and base")
    parser.add_argument("--native", action="store_true", help="compile Rust for this CPU as well")
    args = parser.parse_args()

    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    out = args.out or target / "bench-lpm"
    out.mkdir(parents=True, exist_ok=True)
    if not shutil.which("pkg-config") or subprocess.run(["pkg-config", "--exists", "libdpdk"]).returncode:
        missing("pkg-config does not know libdpdk (Debian: apt install dpdk-dev)")
    if not (args.data / "tables/full_table_v4v6.txt.gz").exists():
        missing(f"{args.data} has no tables/full_table_v4v6.txt.gz")
    if args.keys % 32:
        parser.error("--keys must be a multiple of 32")

    flags = run(["pkg-config", "--cflags", "--libs", "libdpdk"]).split()
    # Libraries go after what needs them.
    flags.sort(key=lambda flag: flag.startswith("-l"))
    program = out / "rte_lpm"
    source = Path(__file__).with_name("rte_lpm.c")
    run(["cc", "-O3", "-march=native", "-o", str(program), str(source), *flags])
    env = dict(os.environ)
    if args.native:
        env["RUSTFLAGS"] = "-C target-cpu=native"
        env["CARGO_TARGET_DIR"] = str(target / "native")
    build = ["cargo", "build", "--release", "-q", "-p", "wirespeed-functions", "--example", "lpm"]
    run(build, env=env, cwd=ROOT)
    ours = Path(env.get("CARGO_TARGET_DIR", target)) / "release/examples/lpm"

    key_files = [out / f"{kind}.bin" for kind in KEYS]
    if not all(f.exists() and f.stat().st_size == 4 * args.keys for f in key_files):
        prepare(out, args.data, args.keys)
    image = out / "rte_lpm.image"
    if not image.exists() or image.stat().st_mtime < (out / "routes.bin").stat().st_mtime:
        print("building the table with rte_lpm_add, once (it takes minutes)", file=sys.stderr)
        print(run([str(program), "build", str(out / "routes.bin"), str(image)]), end="")

    version = run(["pkg-config", "--modversion", "libdpdk"]).strip()
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    print(f"DPDK {version}; {cpu[1] if cpu else 'unknown CPU'}; {args.keys} keys of each kind")
    print(
        f"rte_lpm compiled with -O3 -march=native, ours {'with target-cpu=native' if args.native else 'for any x86-64'}"
    )
    wrong = False
    builds, lowest = {}, {}
    for pages in args.pages.split(","):
        rates, hashes = defaultdict(list), defaultdict(set)
        tail = [pages, str(args.repeats), *map(str, key_files)]
        for _ in range(args.rounds):
            for command in (
                [str(program), "time", str(image), *tail],
                [str(ours), "2", str(out / "routes.bin"), *tail],
                [str(ours), "4", str(out / "routes.bin"), *tail],
            ):
                for line in run(command).splitlines():
                    match line.split():
                        case ["time", name, variant, path, rate, *answers]:
                            kind = Path(path).stem
                            rates[kind, name, variant].append(float(rate))
                            hashes[kind].add(tuple(answers))
                        case ["build", name, seconds, *_]:
                            builds.setdefault(name, []).append(float(seconds))
        print(f"\n{pages} pages: million lookups/s, median of {args.rounds * args.repeats} (ratio to rte_lpm's)")
        print(f"{'keys':10}{'call':8}{'rte_lpm':>10}{'x4':>8}{'ours, 4 B':>18}{'ours, 2 B':>18}")
        for kind, what in KEYS.items():
            for variant in ("single", "bulk"):
                median = lambda name, v=variant: statistics.median(rates[kind, name, v])
                peer = median("rte_lpm/4")
                x4 = median("rte_lpm/4", "x4") if variant == "bulk" else None
                best = max(peer, x4 or 0)
                for name in ("wirespeed/4", "wirespeed/2"):
                    lowest[name] = min(lowest.get(name, 9e9), median(name) / best)
                cells = "".join(f"{median(n):>10.1f} ({median(n) / best:.2f}x)" for n in ("wirespeed/4", "wirespeed/2"))
                print(f"{kind:10}{variant:8}{peer:>10.1f}{x4 and f'{x4:.1f}' or '':>8}{cells}")
            if len(hashes[kind]) != 1:
                wrong = True
                print(f"{kind}: answers differ: {hashes[kind]}")
    print("\nratios of bulk are to the better of rte_lpm_lookup_bulk and lookupx4")
    for name, ratio in lowest.items():
        print(f"lowest ratio of {name} B entries: {ratio:.2f}x")
    for name, seconds in builds.items():
        print(f"built by {name}: {statistics.median(seconds):.3f} s")
    print("answers: " + ("DIFFER" if wrong else "identical"))
    sys.exit(wrong)


if __name__ == "__main__":
    main()
