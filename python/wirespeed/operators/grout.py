"""grout: the commands of grcli that make ports and share queues out, and its statistics by node.

Column names changed before 1.0, so they are looked for by name. grout makes its pools itself.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Final

from wirespeed.operators.facts import Node, Told, Trust
from wirespeed.operators.texts import OperatorText, cpus, number, shown, whole

_NEAREST: Final = "the nearest: routing by a table of 24 and 8 bits in bursts; its graph of nodes is left out"


def commands(text: OperatorText, told: Told) -> None:
    """`interface add port`, `affinity cpus set` and `graph config set`."""
    ports = queues = 0
    for n, line in text:
        words = line.partition("#")[0].split()
        words = words[words[0] == "grcli" :] if words else []
        settings = dict(itertools.pairwise(words))
        if words[:3] == ["interface", "add", "port"]:
            ports += 1
            queues += _count(text, told, settings, "rxqs", "rx_queues", n) or 1
            ring = _count(text, told, settings, "qsize", "rx_descriptors", n)
            if ring is not None:
                told.fact("tx_descriptors", ring, n, Trust.CONFIG)
        elif words[:3] == ["affinity", "cpus", "set"] and "datapath" in settings:
            if not (found := cpus(settings["datapath"])):
                raise text.refuse(n, f"datapath {shown(settings['datapath'])}: must be cores, such as 2,3")
            told.fact("cores", len(found), n, Trust.CONFIG)
        elif words[:3] == ["graph", "config", "set"]:
            _count(text, told, settings, "rx-burst-max", "burst", n)
        elif words and words[0] not in ("affinity", "interface", "graph", "address", "route", "grout"):
            told.note(f"is no command that is known: {shown(line)}", n)
    if not ports and not told.facts:
        raise text.ended("`interface add port`, `affinity cpus set` or `graph config set`")
    if ports:
        told.fact("ports", ports, None, Trust.CONFIG)
        told.fact("all_rx_queues", queues, None, Trust.CONFIG)
    told.fact("program", "l3fwd", None, Trust.DEFAULT, _NEAREST)


def _count(text: OperatorText, told: Told, settings: dict[str, str], name: str, fact: str, line: int) -> int | None:
    if name not in settings:
        return None
    value = whole(settings[name])
    if value is None:
        raise text.refuse(line, f"{name} {shown(settings[name])}: must be a whole number")
    if value == 0:
        told.note(f"{name} 0 is the driver's own number, which is not told", line)
        return None
    told.fact(fact, value, line, Trust.CONFIG)
    return value


def statistics(text: OperatorText, told: Told) -> None:
    """`grcli stats show software`: cycles a packet, node by node."""
    head: Sequence[str] = ()
    packets = total = 0.0
    for n, line in text:
        words = line.split()
        if "NODE" in words and "PACKETS" in words:
            head = words
        elif head and len(words) == len(head) and re.match(r"[a-z]\w*", words[0]):
            row = dict(zip(head, words, strict=True))
            count, cycles = number(row["PACKETS"]), number(row.get("CYCLES/PKT", ""))
            if count is None or cycles is None:
                continue
            if min(count, cycles) < 0:
                raise text.refuse(n, f"node {row['NODE']} has a number below 0; counters never have")
            told.nodes.append(Node(row["NODE"], cycles, number(row.get("PKTS/BATCH", "")), f"{told.file}:{n}"))
            packets, total = max(packets, count), total + count * cycles
        elif head and line.strip():
            told.note(f"is no node: {shown(line)}", n)
    if not told.nodes:
        raise text.ended("a node below `NODE … PACKETS … CYCLES/PKT`")
    if packets:
        told.measure("cycles_per_packet", total / packets, None)
        told.measure("received", packets, None)
    told.fact("program", "l3fwd", None, Trust.DEFAULT, _NEAREST)
