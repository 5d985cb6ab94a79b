"""The DRAM controller from arrays: millions of requests per CPU-second, DDR4-2400, one channel, 64-byte requests.

A stream and random addresses over 8 GiB, offered every clock until refused (saturated) and every 20 clocks (low), with
every completion written out. The controllers that it agrees with are programs of their own, so none runs beside it here.
Needs the package and numpy; without them the exit code is 2.
"""

import importlib.util
import sys

REQUESTS = 1_000_000
MAP = "row bank group column"
NOT_RUN = 2


def main() -> int:
    missing = [name for name in ("wirespeed", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"not installed: {', '.join(missing)}: pip install . numpy")
        return NOT_RUN
    import numpy as np
    from wirespeed.memory import simulate_dram

    lines = {
        "stream": np.arange(REQUESTS, dtype=np.uint64),
        "random": np.random.Generator(np.random.PCG64(42)).integers(0, 2**27, REQUESTS, dtype=np.uint64),
    }
    print(f"{'trace, offered':<24} {'M requests/CPU-s':>17} {'GB/s':>8} {'mean read clk':>14}")
    for name, line in lines.items():
        for offered in ("saturated", "every=20"):
            runs = [simulate_dram(line * np.uint64(64), map=MAP, offered=offered, record=True) for _ in range(3)]
            best = min(runs, key=lambda run: run["cpu_s"])
            rate = best["requests"] / best["cpu_s"] / 1e6
            clocks = best["read_latency_clk"]["mean"]
            print(f"{name + ', ' + offered:<24} {rate:>17.1f} {best['bandwidth_gb_per_s']:>8.2f} {clocks:>14.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
