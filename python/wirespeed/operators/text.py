"""What an import found, for the terminal: files, settings, conflicts, cycles, losses, and predictions beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from wirespeed import quantities as q
from wirespeed import scenarios
from wirespeed.mobile.core import Way
from wirespeed.operators.beside import Pair, Ring
from wirespeed.operators.captures import ImportedCapture
from wirespeed.operators.facts import FACTS, MEASURED, Fact, Node, Told
from wirespeed.operators.joining import Joined
from wirespeed.operators.signs import Finding
from wirespeed.printed import table

# Nodes that a terminal shows, the dearest first; JSON has all.
_NODES = 10


def page(joined: Joined, told: Sequence[Told], found: Sequence[Finding]) -> RenderableType:
    """Everything but predictions, the answer first."""
    parts: list[RenderableType] = [Text(headline(joined, found), "bold"), Text()]
    for finding in found:
        parts.append(Text(f"• {finding.what}"))
        if finding.do:
            parts.append(Padding(Text(f"→ {finding.do}", "cyan"), (0, 0, 0, 2)))
    for part in (_nodes(told), _measured(told), _settings(joined), _conflicts(joined), _files(told)):
        parts.extend(part)
    notes = list(dict.fromkeys([*joined.notes, *(note for each in told for note in each.notes)]))
    if notes:
        parts += [Text(), Text("Notes", "bold"), *(Text(f"  {_short(note)}") for note in notes)]
    return Group(*parts)


def headline(joined: Joined, found: Sequence[Finding]) -> str:
    """What the scenario is, and how much of it is told."""
    told = sum(each.state != "assumed" for each in joined.settings)
    by_path = {each.path: each.value for each in joined.settings}
    program = by_path.get("function.program") or by_path["function.kind"]
    cores, processor = by_path["machine.cores"], by_path["machine.processor"]
    what = f"{program} on {cores} core{'' if cores == 1 else 's'} of {processor}, {by_path['nic.model']}"
    return f"{what}: {told} of {len(joined.settings)} settings are told by files, {len(joined.settings) - told} assumed"


def _short(text: str) -> str:
    """A place without its folders."""
    head, colon, rest = text.partition(": ")
    return f"{Path(head).name}{colon}{rest}" if "/" in head else text


def _nodes(told: Sequence[Told]) -> Iterator[RenderableType]:
    """Where the cycles of a packet go, node by node."""
    for each in told:
        if not each.nodes:
            continue
        total = sum(node.cycles for node in each.nodes)
        shown = table("node", ">cycles a packet", ">share", ">packets a call", title="Where the cycles go")
        for node in sorted(each.nodes, key=lambda node: -node.cycles)[:_NODES]:
            shown.add_row(*_node(node, total))
        yield Text()
        yield shown
        if len(each.nodes) > _NODES:
            yield Text(f"  {len(each.nodes) - _NODES} more nodes")


def _node(node: Node, total: float) -> tuple[str, ...]:
    calls = q.MISSING if node.packets_per_call is None else q.digits(node.packets_per_call)
    return node.name, q.digits(node.cycles), q.share(node.cycles / total if total else None), calls


def _measured(told: Sequence[Told]) -> Iterator[RenderableType]:
    rows = [(each, one) for one in told for each in one.measured]
    if not rows:
        return
    shown = table("measured", ">value", "of", "from", title="How the real thing does")
    for each, _ in rows:
        shown.add_row(
            MEASURED[each.name].words, measured(each.name, each.value), each.of, _short(f"{each.where}: ")[:-2]
        )
    yield Text()
    yield shown


def measured(name: str, value: float, unit: str | None = None) -> str:
    """A measurement with its unit."""
    unit = MEASURED[name].unit if unit is None else unit
    if unit == "packets/s":
        return q.mpps(value / 1e6)
    if unit == "B/s":
        return f"{q.digits(value / 1e9)} GB/s"
    if name in ("busy", "empty_polls", "io_write_misses"):
        return q.share(value)
    if not unit and value == round(value) and value >= 1000:
        return q.count(value)
    return f"{q.digits(value)}{unit and ' '}{unit}"


def _settings(joined: Joined) -> Iterator[RenderableType]:
    for title, states in (("Taken", ("told", "derived")), ("Assumed", ("assumed",))):
        chosen = [each for each in joined.settings if each.state in states]
        if not chosen:
            continue
        shown = table("setting", "value", "from", title=title)
        for each in chosen:
            value = each.value if isinstance(each.value, str) else scenarios.toml_value(each.value)
            shown.add_row(each.path, value, _short(each.where))
        yield Text()
        yield shown


def fact(each: Fact) -> str:
    """A fact's value with its unit and its place."""
    unit = FACTS[each.name].unit
    value = each.value if isinstance(each.value, str) else f"{each.value:,.12g}{unit and ' '}{unit}"
    return f"{value} ({_short(f'{each.where}: ')[:-2]}{each.note and ', '}{each.note})"


def _conflicts(joined: Joined) -> Iterator[RenderableType]:
    if joined.conflicts:
        shown = table("what", "taken", "not taken", title="Files differ")
        for each in joined.conflicts:
            shown.add_row(FACTS[each.name].words, fact(each.taken), "; ".join(map(fact, each.others)))
        yield Text()
        yield shown


def _files(told: Sequence[Told]) -> Iterator[RenderableType]:
    shown = table("file", "is", ">facts", ">measured", title="Read")
    for each in told:
        shown.add_row(Path(each.file).name, each.title, str(len(each.facts)), str(len(each.measured)))
    yield Text()
    yield shown


def mobile(imported: ImportedCapture) -> RenderableType:
    """Sessions of a capture by user plane, and how many of its packets are theirs."""
    capture = imported.capture
    shown = table("user plane", ">sessions", ">ended", ">PDRs", ">uplink", ">downlink", "", title="Sessions by PFCP")
    for node in capture.nodes():
        of = [capture.of(session) for session in node.sessions]
        shown.add_row(
            str(node.address),
            q.count(len(node.sessions)),
            q.count(sum(session.ended is not None for session in node.sessions)),
            q.count(sum(len(session.pdrs) for session in node.sessions)),
            q.count(sum(usage.packets[Way.UPLINK] for usage in of)),
            q.count(sum(usage.packets[Way.DOWNLINK] for usage in of)),
            f"← taken, {q.count(len(imported.rows.rows))} fit" if node.address == imported.node.address else "",
        )
    share = q.share(capture.matched / capture.tunnelled) if capture.tunnelled else q.MISSING
    matched = f"  {q.count(capture.matched)} of {q.count(capture.tunnelled)} users' packets are a session's ({share})"
    return Group(Text(), shown, Text(matched))


def beside(pairs: Sequence[Pair], rings: Sequence[Ring], packets: int) -> RenderableType:
    """Predictions beside measurements, and by RX ring."""
    parts: list[RenderableType] = []
    if pairs:
        shown = table("", ">measured", ">predicted", ">off", "from", title="Measured and predicted")
        for each in pairs:
            off = None if not each.predicted or not each.measured else (each.predicted / each.measured - 1) * 100
            predicted = q.MISSING if each.predicted is None else measured(each.name, each.predicted, each.unit)
            name = MEASURED[each.name].words
            shown.add_row(
                name, measured(each.name, each.measured, each.unit), predicted, q.change(off), _short(each.where)
            )
        parts += [shown, Text()]
    shown = table(">RX ring", ">carried", ">loss", ">cycles", ">p99", ">DRAM reads", "", title="By RX ring, predicted")
    for ring in rings:
        shown.add_row(
            str(ring.rx_descriptors),
            q.mpps(ring.carried_mpps),
            q.MISSING if ring.loss is None else q.probability(ring.loss),
            q.digits(ring.cycles_per_packet),
            q.duration(ring.p99_ns),
            q.digits(ring.dram_reads_per_packet),
            "← now" if ring.is_now else "",
        )
    parts += [shown, Text(f"  {q.count(packets)} packets each; cycles and DRAM reads are a packet's")]
    return Group(*parts)
