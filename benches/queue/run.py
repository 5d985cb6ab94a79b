"""M/M/1 at rho 0.9 on the engine and on SimPy, side by side: customers per second and their ratio.

Both sides run in turn, so that what else the machine does falls on both alike, and the best of each
counts. CPU time is that of the process, start and end included. Needs SimPy (requirements.txt);
without it the exit code is 2. It is 1 when the ratio of CPU times is below `--require`.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
ENGINE_CUSTOMERS = 20_000_000
SIMPY_CUSTOMERS = 200_000
NOT_RUN = 2


def engine_binary() -> str:
    command = ["cargo", "build", "--release", "--quiet", "-p", "wirespeed-engine", "--example", "mm1"]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return str(target / "release" / "examples" / "mm1")


def measure(command: list[str], customers: int) -> tuple[float, float, str]:
    """Customers per second of wall time as the program itself saw it, per second of CPU, and its line."""
    process = subprocess.Popen([*command, str(customers)], stdout=subprocess.PIPE, text=True)
    line = process.stdout.read().strip()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)} failed with status {status}")
    return float(line.split()[1]), customers / (usage.ru_utime + usage.ru_stime), line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--require", type=float, default=120.0, metavar="RATIO")
    arguments = parser.parse_args()

    if importlib.util.find_spec("simpy") is None:
        print("SimPy is not installed: pip install -r benches/queue/requirements.txt")
        return NOT_RUN

    sides = {
        "engine": ([engine_binary()], ENGINE_CUSTOMERS),
        "simpy": ([sys.executable, str(HERE / "simpy_mm1.py")], SIMPY_CUSTOMERS),
    }
    wall = dict.fromkeys(sides, 0.0)
    cpu = dict.fromkeys(sides, 0.0)
    lines = {}
    for _ in range(arguments.rounds):
        for name, (command, customers) in sides.items():
            by_wall, by_cpu, lines[name] = measure(command, customers)
            wall[name] = max(wall[name], by_wall)
            cpu[name] = max(cpu[name], by_cpu)

    for name, line in lines.items():
        print(f"{name:>7}: {line}")
    print(f"{'M/M/1, rho 0.9, best of ' + str(arguments.rounds):<28} {'engine':>12} {'SimPy':>12} {'ratio':>8}")
    ratio = 0.0
    for unit, rate in (("customers per second", wall), ("customers per CPU-second", cpu)):
        ratio = rate["engine"] / rate["simpy"]
        print(f"{unit:<28} {rate['engine']:>12,.0f} {rate['simpy']:>12,.0f} {ratio:>7.0f}x")
    if ratio < arguments.require:
        print(f"the engine is {ratio:.0f} times as fast as SimPy, {arguments.require:.0f} are required")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
