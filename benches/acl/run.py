#!/usr/bin/env python3
"""Classification against rte_acl of the installed DPDK, side by side.

Builds both programs, gives both the same rules and packets (fields that a random rule matches, or just misses), runs them
in turn, and prints the medians in million packets a second. Ends with 1 if an answer differs, 2 if something is missing.

Needs Debian's dpdk-dev (pkg-config libdpdk), cargo, and the rules of ../shared/data.
"""

import argparse
import gzip
import os
import random
import shutil
import statistics
import subprocess
import sys
from array import array
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETS = ("acl1_1k", "fw1_1k", "ipc1_1k", "acl1_10k", "acl2_10k", "fw1_10k", "ipc1_10k")

Rule = tuple[int, int, int, int, int, int, int, int, int, int, int, int]


def missing(what: str) -> None:
    print(f"benches/acl: not run: {what}", file=sys.stderr)
    sys.exit(2)


def run(command: list[str], **kwargs) -> str:
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, **kwargs)
    if done.returncode:
        sys.exit(f"benches/acl: {' '.join(command)} ended with {done.returncode}")
    return done.stdout


def prefix(text: str) -> tuple[int, int]:
    address, length = text.split("/")
    a, b, c, d = map(int, address.split("."))
    bits = int(length)
    mask = (0xFFFFFFFF << (32 - bits)) & 0xFFFFFFFF
    return (a << 24 | b << 16 | c << 8 | d) & mask, bits


def masked(text: str) -> tuple[int, int]:
    value, mask = (int(part, 16) for part in text.split("/"))
    return value & mask, mask


def read_rules(path: Path) -> list[Rule]:
    rules = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            src, dst, s0, _, s1, d0, _, d1, proto, *flags = line.lstrip("@").split()
            ports = (int(s0), int(s1), int(d0), int(d1))
            rules.append((*prefix(src), *prefix(dst), *ports, *masked(proto), *masked(flags[0] if flags else "0/0")))
    return rules


def key(rule: Rule, rng: random.Random) -> list[int]:
    src, src_len, dst, dst_len, s0, s1, d0, d1, proto, proto_mask, flags, flags_mask = rule
    src |= rng.getrandbits(32) >> src_len
    dst |= rng.getrandbits(32) >> dst_len
    src_port, dst_port = rng.randint(s0, s1), rng.randint(d0, d1)
    proto |= rng.getrandbits(8) & ~proto_mask
    flags |= rng.getrandbits(16) & ~flags_mask
    match rng.randrange(8):
        case 0:
            dst ^= 1 << rng.randrange(32)
        case 1:
            dst_port = (dst_port + 1) & 0xFFFF
        case 2:
            flags ^= 0x200
    return [src, dst, src_port | dst_port << 16, proto, flags]


def write_words(path: Path, words: array) -> None:
    assert words.itemsize == 4 and sys.byteorder == "little"
    path.write_bytes(words.tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data", help="folder with rules/")
    parser.add_argument("--out", type=Path, help="folder for programs and inputs (default: in cargo's target)")
    parser.add_argument("--sets", default=",".join(SETS), help="rule sets, with commas between")
    parser.add_argument("--rounds", type=int, default=3, help="how often the programs run in turn")
    parser.add_argument("--keys", type=int, default=1 << 16, help="packets of each set")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    out = args.out or target / "bench-acl"
    out.mkdir(parents=True, exist_ok=True)
    if not shutil.which("pkg-config") or subprocess.run(["pkg-config", "--exists", "libdpdk"]).returncode:
        missing("pkg-config does not know libdpdk (Debian: apt install dpdk-dev)")
    if not (args.data / "rules").is_dir():
        missing(f"{args.data} has no rules/")
    flags = run(["pkg-config", "--cflags", "--libs", "libdpdk"]).split()
    # Libraries go after what needs them.
    flags.sort(key=lambda flag: flag.startswith("-l"))
    program = out / "rte_acl"
    source = Path(__file__).with_name("rte_acl.c")
    run(["cc", "-O3", "-march=native", "-o", str(program), str(source), *flags])
    run(["cargo", "build", "--release", "-q", "-p", "wirespeed-functions", "--example", "acl"], cwd=ROOT)
    ours = target / "release/examples/acl"

    print(
        f"DPDK {run(['pkg-config', '--modversion', 'libdpdk']).strip()}; {args.keys} packets a set; million packets/s"
    )
    print(f"{'rules':12}{'number':>8}{'rte_acl':>10}{'tuple space':>13}{'linear':>10}  answers")
    wrong = False
    for name in args.sets.split(","):
        rules = read_rules(args.data / f"rules/{name}.rules.gz")
        rng = random.Random(f"{args.seed} {name}")
        records = array("I")
        for src, src_len, dst, dst_len, s0, s1, d0, d1, proto, proto_mask, bits, mask in rules:
            records.extend(
                [src, src_len, dst, dst_len, s0 | s1 << 16, d0 | d1 << 16, proto | proto_mask << 8, bits | mask << 16]
            )
        write_words(out / "rules.bin", records)
        keys = array("I")
        for _ in range(args.keys):
            keys.extend(key(rules[rng.randrange(len(rules))], rng))
        write_words(out / "keys.bin", keys)
        files = [str(out / "rules.bin"), str(out / "keys.bin")]
        rates = defaultdict(list)
        answers = set()
        for _ in range(args.rounds):
            for command in ([str(program)], [str(ours), "tuple_space"], [str(ours), "linear"]):
                for line in run([*command, *files, "1", str(out / "answers.bin")]).splitlines():
                    match line.split():
                        case ["time", which, rate]:
                            rates[which].append(float(rate))
                answers.add((out / "answers.bin").read_bytes())
        median = {which: statistics.median(values) for which, values in rates.items()}
        wrong |= len(answers) != 1
        verdict = "identical" if len(answers) == 1 else "DIFFER"
        cells = f"{median['rte_acl']:>10.2f}{median['tuple_space']:>13.2f}{median['linear']:>10.3f}"
        print(f"{name:12}{len(rules):>8}{cells}  {verdict}")
    sys.exit(wrong)


if __name__ == "__main__":
    main()
