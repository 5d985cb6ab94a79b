"""The files that pages talk about: captures, tables, scenarios, results, a program to be tuned, and a made machine."""

from __future__ import annotations

import gzip
import shutil
import struct
from pathlib import Path

import n4_packets
import operator_files
import wirespeed
from wirespeed import _wirespeed

ROOT = Path(__file__).resolve().parents[2]
MASK = 0x7FF
"""The ways of the made machine's cache."""


def inputs(folder: Path) -> None:
    """Puts them into `folder`."""
    frames = [frame(i) for i in range(300)]
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    records = [struct.pack("<IIII", 1, 10 * i, len(f), len(f)) + f for i, f in enumerate(frames)]
    capture = head + b"".join(records)
    for name in ("trace.pcap.gz", "mine.pcap.gz", "isp_nz_20100113.pcap.gz"):
        (folder / name).write_bytes(gzip.compress(capture))
    # Copies: what pages build there stays out of the sources.
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("*.o", "*.probe", "*.gz"))
    rib = "".join(f"{10 + i % 90}.{i // 90}.0.0/16\n" for i in range(500)) + "0.0.0.0/0\n"
    for name in ("rib.mrt.gz", "rib.gz", "full_table_v4v6.txt.gz"):
        (folder / name).write_bytes(gzip.compress(rib.encode()))
    rules = "".join(f"@{10 + i}.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF 0x0000/0x0000\n" for i in range(50))
    (folder / "acl1_10k.rules.gz").write_bytes(gzip.compress(rules.encode()))
    for name in ("my.toml", "my-scenario.toml"):
        (folder / name).write_text(_wirespeed.preset("scenario", "forwarding"))
    # What `wirespeed calibrate` would write is a preset of a machine.
    (folder / "mine.toml").write_text(_wirespeed.preset("machine", "xeon-gold-6140"))
    (folder / "study.toml").write_text('scenario = "forwarding"\n[vary]\ntraffic.load = [0.2, 0.4]\n')
    requests = "".join(f"R {i * 64:x}\n" for i in range(2000))
    for name in ("stream.rw", "my.rw"):
        (folder / name).write_text(requests)
    (folder / "loads.rw.gz").write_bytes(gzip.compress(requests.encode()))
    (folder / "stream.rw.zst").write_bytes(compressed(requests.encode()))
    for name in ("before", "after"):
        wirespeed.run("forwarding", set={"run.packets": 1000, "run.curve": [], "function.forward.prefixes": 100}).write(
            folder / name
        )
    (folder / "lscpu.json").write_text(operator_files.XEON_JSON)
    (folder / "runtime.txt").write_text(operator_files.RUNTIME)
    (folder / "core.pcap").write_bytes(n4_packets.pcap(n4_packets.two_hops()))
    # A program that forwards the better the larger its bursts are.
    program = folder / "forward"
    program.write_text('#!/bin/sh\necho "Mpps: 1.$4"\n')
    program.chmod(0o755)
    daemon(folder)


def daemon(folder: Path) -> None:
    """A configuration of `wirespeedd`: the one that is shipped, on a machine of plain files.

    The kernel's rules are not in them: the daemon's own tests have a made machine with those (`crates/fakehost`).
    """
    machine = folder / "machine"
    resctrl = machine / "resctrl"
    info = resctrl / "info" / "L3"
    info.mkdir(parents=True)
    for name, text in (
        ("cbm_mask", f"{MASK:x}"),
        ("min_cbm_bits", "1"),
        ("num_closids", "16"),
        ("shareable_bits", "600"),
    ):
        (info / name).write_text(f"{text}\n")
    (resctrl / "info" / "last_cmd_status").write_text("ok\n")
    for group, cpus in ((".", range(8)), ("wirespeed-rx", (1,)), ("wirespeed-work", range(2, 8))):
        at = resctrl / group
        at.mkdir(exist_ok=True)
        text = {"schemata": f"L3:0={MASK:x}", "mode": "shareable", "cpus_list": f"{min(cpus)}-{max(cpus)}", "tasks": ""}
        text["cpus"] = f"{sum(1 << cpu for cpu in cpus):x}"
        for name, words in text.items():
            (at / name).write_text(f"{words}\n")
    for cpu in range(8):
        (machine / "cpu" / str(cpu)).mkdir(parents=True)
    (machine / "proc").mkdir()
    (machine / "proc" / "cpuinfo").write_text(
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nphysical id\t: 0\n"
        "flags\t\t: cat_l3\n"
    )
    shipped = (ROOT / "crates" / "daemon" / "systemd" / "wirespeedd.toml").read_text()
    # Without waiting for a second between decisions, or for a DPDK program, and apart from a daemon that may run here.
    shipped = shipped.replace('interval = "1 s"', f'interval = "100 ms"\nlisten = ""\nstate = "{folder / "state"}"')
    shipped = shipped.replace("/var/run/dpdk/rte/dpdk_telemetry.v2", str(folder / "no-such-socket"))
    roots = f'resctrl = "{resctrl}"\ndev_cpu = "{machine / "cpu"}"\nproc = "{machine / "proc"}"\n'
    (folder / "wirespeedd.toml").write_text(f"{shipped}\n[roots]\n{roots}")


def frame(i: int) -> bytes:
    """An IPv4 frame of 60 to 1000 bytes."""
    bytes_ = 60 + 40 * (i % 24)
    ip = struct.pack(
        "!BBHHHBBH4B4B", 0x45, 0, bytes_ - 14, i, 0, 64, 6, 0, 198, 51, 100, i % 250, 10 + i % 90, i % 5, 1, 1
    )
    total = sum(struct.unpack("!10H", ip))
    checksum = ~(total % 0xFFFF) & 0xFFFF
    ip = ip[:10] + struct.pack("!H", checksum) + ip[12:]
    return (b"\2" * 12 + b"\x08\x00" + ip).ljust(bytes_, b"x")


def compressed(data: bytes) -> bytes:
    """As zstd where there is one; gzip otherwise, which readers tell by its first bytes."""
    import pyarrow as pa

    return bytes(pa.Codec("zstd").compress(data)) if pa.Codec.is_available("zstd") else gzip.compress(data)
