"""Files of the host: lscpu, its caches, numactl, lshw and dmidecode.

Left out: flags, vulnerabilities, huge pages. `cache size` of other tools is another cache on other
vendors' processors, and is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from wirespeed.operators import catalogue
from wirespeed.operators.facts import Told, Trust
from wirespeed.operators.texts import OperatorText, cpus, number, shown, size, whole

_GUEST: Final = "a virtual machine hides caches, NUMA nodes and DIMMs of its host: give files of the host, too"
_CLOCK: Final = re.compile(r"@\s*([\d.]{1,6})\s*([GM])Hz")
_INSTANCES: Final = re.compile(r"(?P<size>[^(]+?)(?:\s*\((?P<count>\d{1,5}) instances?\))?")
_LINE: Final = 64
# Sizes are printed with three digits: 24.8M are 24.75.
_ROUNDED: Final = 0.01
_COUNTS: Final[Mapping[str, str]] = {
    "CPU family": "cpu_family",
    "Model": "cpu_number",
    "Stepping": "cpu_stepping",
    "Thread(s) per core": "threads_per_core",
    "Core(s) per socket": "cores_per_socket",
    "Socket(s)": "sockets",
    "NUMA node(s)": "numa_nodes",
}
_CACHES: Final[Mapping[str, str]] = {"L1d cache": "l1", "L2 cache": "l2", "L3 cache": "llc"}


def clock_of(model: str) -> float | None:
    """The base clock in Hz that a processor's name ends with.

    >>> clock_of("Intel(R) Xeon(R) Gold 6140 CPU @ 2.30GHz"), clock_of("AMD EPYC")
    (2300000000, None)
    """
    found = _CLOCK.search(model)
    value = number(found[1]) if found else None
    return None if found is None or value is None else round(value * {"G": 1e9, "M": 1e6}[found[2]])


def lscpu(text: OperatorText, told: Told) -> None:
    """`lscpu`, as text or JSON."""
    fields = dict(_lscpu_json(text) if text.documents() else _lscpu_text(text))
    if "Model name" not in fields:
        raise text.ended("`Model name`")
    model, line = fields["Model name"]
    told.fact("cpu", model, line)
    told.fact("cpu_vendor", fields.get("Vendor ID", ("", None))[0], line)
    for name, fact in _COUNTS.items():
        value, at = fields.get(name, ("", None))
        if (found := whole(value)) is not None:
            told.fact(fact, found, at)
    if (clock := clock_of(model)) is not None:
        told.fact("frequency", clock, line)
    value, at = fields.get("BogoMIPS", ("", None))
    if (bogus := number(value)) is not None and fields.get("Architecture", ("",))[0].startswith("x86"):
        told.fact("tsc", bogus / 2 * 1e6, at, Trust.DEFAULT, "half of BogoMIPS")
    for name, cache in _CACHES.items():
        if name in fields:
            _summed_cache(told, cache, *fields[name])
        else:
            told.note(f"has no line `{name}`")
    flags = fields.get("Flags", ("", None))[0].split()
    if "Hypervisor vendor" in fields or "hypervisor" in flags:
        told.fact("hypervisor", fields.get("Hypervisor vendor", ("of no name", None))[0], line)
        told.note(_GUEST)


def _summed_cache(told: Told, cache: str, given: str, line: int | None) -> None:
    """One instance of a cache: `96 KiB (2 instances)` is both of them, and `48K` of older versions is one."""
    found = _INSTANCES.fullmatch(given.strip())
    total = size(found["size"]) if found else None
    if found is None or total is None:
        told.note(f"no size of a cache: {shown(given)}", line)
        return
    count = int(found["count"] or 1)
    if count:
        told.fact(f"{cache}_bytes", total // count, line)


def _lscpu_text(text: OperatorText) -> Iterator[tuple[str, tuple[str, int | None]]]:
    for n, line in text:
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip(), (value.strip(), n)


def _lscpu_json(text: OperatorText) -> Iterator[tuple[str, tuple[str, int | None]]]:
    waiting = [each for document in text.documents() if isinstance(document, dict) for each in _rows(document, "lscpu")]
    waiting.reverse()
    while waiting:
        each = waiting.pop()
        name, data = each.get("field"), each.get("data")
        if isinstance(name, str) and isinstance(data, str):
            line = text.line_of(f'"{name}"')
            yield name.rstrip(":"), (data, line)
        waiting.extend(reversed(_rows(each, "children")))


def _rows(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = document.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def lscpu_caches(text: OperatorText, told: Told) -> None:
    """`lscpu --caches`, as text or JSON: the size and the ways of one instance."""
    rows = list(_cache_rows(text))
    known = {"L1d": "l1", "L2": "l2", "L3": "llc"}
    if not any(row.get("NAME") in known for row, _ in rows):
        raise text.ended("a line of a cache (L1d, L2 or L3)")
    for row, line in rows:
        cache = known.get(row.get("NAME", ""))
        bytes_, ways = size(row.get("ONE-SIZE", "")), whole(row.get("WAYS", ""))
        if cache is None:
            continue
        if bytes_ is None:
            told.note(f"no size of {row['NAME']}: {shown(row.get('ONE-SIZE', ''))}", line)
            continue
        sets, unit = whole(row.get("SETS", "")), whole(row.get("COHERENCY-SIZE", ""))
        exact = (ways or 0) * (sets or 0) * (unit or 0)
        if unit not in (None, _LINE):
            told.note(f"lines of {unit} B; the simulator has lines of {_LINE} B", line)
        if exact and abs(exact - bytes_) > _ROUNDED * bytes_:
            told.note(f"{row['NAME']}: {ways} ways of {sets} sets of {unit} B are not {bytes_} B", line)
            exact = 0
        told.fact(f"{cache}_bytes", exact or bytes_, line)
        if ways is not None:
            told.fact(f"{cache}_ways", ways, line)


def _cache_rows(text: OperatorText) -> Iterator[tuple[dict[str, str], int | None]]:
    for document in text.documents():
        for each in _rows(document, "caches") if isinstance(document, dict) else ():
            line = text.line_of(f'"{each.get("name")}"')
            yield {str(name).upper(): str(value) for name, value in each.items()}, line
    head: list[str] = []
    for n, row in text:
        words = row.split()
        if "NAME" in words and "ONE-SIZE" in words:
            head = words
        elif head and len(words) >= sum(not name.endswith("-POLICY") for name in head) and words[0][:1] == "L":
            yield dict(zip(head, words, strict=False)), n


def numactl(text: OperatorText, told: Told) -> None:
    """`numactl -H`: nodes, their processors, and how far they are from each other."""
    nodes: list[int] = []
    distances = False
    for n, line in text:
        if (found := re.fullmatch(r"available: (\d{1,5}) nodes? \(.*\)", line.strip())) is not None:
            told.fact("numa_nodes", int(found[1]), n)
        elif (found := re.fullmatch(r"node (\d{1,5}) cpus:(.*)", line.strip())) is not None:
            nodes.append(int(found[1]))
            if cpus(found[2]) is None:
                raise text.refuse(n, f"came {shown(found[2])}; processors are numbers with spaces between")
            if not found[2].strip():
                told.note(f"node {found[1]} has no processor: memory of its own kind (CXL, HBM), which is left out", n)
        distances = distances or line.startswith("node distances")
    if not told.facts:
        raise text.ended("`available: N nodes`")
    if not nodes or not distances:
        raise text.ended("the nodes and `node distances`")


def dmidecode(text: OperatorText, told: Told) -> None:
    """`dmidecode -t memory`, and processors where it has them: populated slots, and the rate in force."""
    dimms, channels = 0, set[str | None]()
    rates, types = dict[float, int](), dict[str, int]()
    seen = False
    for title, line, block in _blocks(text):
        if title == "Processor Information" and (version := block.get("Version")) is not None:
            told.fact("cpu", *version)
        if title != "Memory Device":
            continue
        seen = True
        if size(block.get("Size", ("", line))[0]) is None:
            continue  # No Module Installed
        dimms += 1
        rate, at = block.get("Configured Memory Speed") or block.get("Configured Clock Speed") or ("", line)
        if (found := number(rate.split()[0] if rate.split() else "")) is not None:
            rates[found] = at
        types[block.get("Type", ("", line))[0]] = line
        channels.add(_channel(block))
    if not seen and not told.facts:
        raise text.ended("a `Memory Device` with its fields")
    if seen and not dimms:
        told.note("no slot is populated: a virtual machine has none")
    if rates:
        told.fact("dimm_rate", min(rates), rates[min(rates)])
    if len(rates) > 1:
        told.note(
            f"DIMMs of several rates: {', '.join(f'{rate:g}' for rate in sorted(rates))} MT/s; the least is taken"
        )
    if types:
        told.fact("dimm_type", *next(iter(types.items())))
    if dimms:
        told.fact("dimms", dimms, None)
        if None not in channels:
            nodes = [str(each).partition("/")[0] for each in channels]
            told.fact("dimm_channels", max(map(nodes.count, nodes)), None)


def _channel(block: Mapping[str, tuple[str, int]]) -> str | None:
    """The channel of a slot where its bank locator spells it; slots' own names are each vendor's."""
    found = re.search(
        r"(?:NODE|CPU|P|PROC)\s*_?(\d+).*CHANNEL\s*_?(\w+)", block.get("Bank Locator", ("",))[0], re.IGNORECASE
    )
    return None if found is None else f"{found[1]}/{found[2]}"


def _blocks(text: OperatorText) -> Iterator[tuple[str, int, dict[str, tuple[str, int]]]]:
    """Titles of the parts of a table of dmidecode, with their fields."""
    title, begin, block = "", 1, dict[str, tuple[str, int]]()
    for n, line in [*text, (len(text.lines) + 1, "")]:
        if line.startswith("Handle ") or not line.strip():
            if title and block:
                yield title, begin, block
            title, block = "", {}
        elif not line[0].isspace():
            title, begin, block = line.strip(), n, {}
        else:
            name, colon, value = line.strip().partition(":")
            if colon:
                block.setdefault(name, (value.strip(), n))


def lshw(text: OperatorText, told: Told) -> None:
    """`lshw -json`: processors, banks of memory and NICs."""
    dimms = sockets = 0
    for each in _tree(text):
        kind, name = each.get("class"), str(each.get("id", ""))
        line = text.line_of(f'"{each["product"]}"') if isinstance(each.get("product"), str) else None
        if kind == "processor" and not each.get("disabled"):
            sockets += 1
            told.fact("cpu", _words(each, "product") or _words(each, "version"), line)
        elif kind == "memory" and name.startswith("bank") and number(each.get("size")):
            dimms += 1
            _bank(told, each, line)
        elif kind == "network":
            _network(told, each, line)
    if not told.facts:
        raise text.ended("a processor, a bank of memory or a NIC")
    if sockets:
        told.fact("sockets", sockets, None)
    if dimms:
        told.fact("dimms", dimms, None)
    else:
        told.note("has no banks of memory: without root, or in a virtual machine, there are none")


def _words(each: Mapping[str, Any], name: str) -> str:
    found = each.get(name)
    return found if isinstance(found, str) else ""


def _bank(told: Told, each: Mapping[str, Any], line: int | None) -> None:
    words = _words(each, "description")
    if (rate := re.search(r"(\d{3,5})\s*M(?:Hz|T/s)", words)) is not None:
        told.fact("dimm_rate", int(rate[1]), line)
    if (kind := re.search(r"\b(DDR\d)\b", words)) is not None:
        told.fact("dimm_type", kind[1], line)


def _network(told: Told, each: Mapping[str, Any], line: int | None) -> None:
    settings = each.get("configuration")
    driver = _words(settings, "driver") if isinstance(settings, dict) else ""
    told.fact("nic", " ".join(filter(None, (_words(each, "vendor"), _words(each, "product")))), line)
    told.fact("driver", driver, line, Trust.KERNEL)
    name = f"{_words(each, 'vendor')} {_words(each, 'product')}"
    if (speed := number(each.get("size"))) is not None and catalogue.nic(name) is not None:
        told.fact("link", speed, line)


def _tree(text: OperatorText) -> Iterator[Mapping[str, Any]]:
    waiting = text.documents()[::-1]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(reversed(each))
        elif isinstance(each, dict):
            yield each
            waiting.extend(reversed(_rows(each, "children")))
