"""What a person writes for a rate, a count, a size or a time, as a number: the one grammar of every option in Python.

A number, a space or none, a prefix (k, M, G, T; Ki, Mi, Gi, Ti for bytes) and a unit in any of its spellings. A rate of
bits may leave its unit out where it has a prefix (`100G`), and a count has a prefix alone (`20k`). Scenarios are parsed
in Rust by the same grammar. How numbers are shown is in `quantities`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from wirespeed.errors import InputError

Kind = Literal["bits", "packets", "bytes", "time", "frequency", "count"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value in the base unit of its kind: bits/s, packets/s, bytes, seconds, hertz, or a bare count."""

    value: float
    kind: Kind


def parse(text: str) -> Quantity | None:
    """What a text means, None where it is no quantity; a bare number is a count.

    >>> parse("80 Gbit/s"), parse("20k"), parse("1 MiB")
    (Quantity(value=80000000000.0, kind='bits'), Quantity(value=20000.0, kind='count'), \
Quantity(value=1048576.0, kind='bytes'))
    >>> parse("ddr4-2666v") is None
    True
    """
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    number, unit = float(found["number"].replace("_", "")), found["unit"]
    if not math.isfinite(number):
        return None
    if unit in _PREFIXES:
        return Quantity(number * _PREFIXES[unit], "count")
    for kind, words in _WORDS.items():
        for word in words:
            prefix = unit.removesuffix(word)
            scales = _SCALES[kind]
            if unit.endswith(word) and prefix in scales:
                return Quantity(number * scales[prefix], kind)
    return None


def ways(value: object) -> int:
    """How many ways of a cache a setting names: a count, or the bits of a mask that is text.

    >>> ways(2), ways("0x600"), ways("0b1111")
    (2, 2, 4)
    """
    return int(value, 0).bit_count() if isinstance(value, str) and value[:2] in ("0x", "0b") else int(str(value))


def rate(where: str, text: str) -> Quantity:
    """A rate of bits or of packets. Raises InputError for a bare number: of what would be a guess.

    >>> rate("--target", "100G").value, rate("--target", "20 Mpps").kind
    (100000000000.0, 'packets')
    """
    found = parse(text)
    if found is not None and found.kind == "count" and text.strip()[-1:].isalpha():
        found = Quantity(found.value, "bits")
    if found is not None and found.kind in ("bits", "packets") and found.value > 0:
        return found
    if found is not None and found.kind == "count" and found.value > 0:
        bare = text.strip()
        raise InputError(f"{where} {text!r}: of packets or of bits? Write '{bare} Mpps' or '{bare} Gbps'")
    raise InputError(f"{where} {text!r}: must be a rate above 0, for example '20 Mpps', '90 Gbps' or '100G'")


def count(where: str, text: str) -> int:
    """A whole number, with k, M or G where that is shorter. Raises InputError.

    >>> count("--packets", "20k"), count("--packets", "1M"), count("--packets", "1_000")
    (20000, 1000000, 1000)
    """
    found = parse(text)
    if found is None or found.kind != "count" or found.value != round(found.value):
        raise InputError(f"{where} {text!r}: must be a whole number, for example 20000, 20k or 1M")
    return round(found.value)


def size(where: str, text: str) -> int:
    """Bytes: a bare number is bytes, KiB and KB are what they say. Raises InputError.

    >>> size("--size", "1MiB"), size("--size", "32 KiB"), size("--size", "4096")
    (1048576, 32768, 4096)
    """
    found = parse(text)
    is_bare = found is not None and found.kind == "count" and text.strip()[-1:].isdigit()
    if found is None or not (found.kind == "bytes" or is_bare) or found.value != round(found.value):
        shorter = (
            f" (KiB is 1024 bytes, KB 1000: write {text.strip()}iB or {text.strip()}B)" if _is_prefixed(text) else ""
        )
        raise InputError(f"{where} {text!r}: must be a size, for example 32768, '32 KiB' or '1 MiB'{shorter}")
    return round(found.value)


def _is_prefixed(text: str) -> bool:
    return text.strip()[-1:] in _DECIMAL and text.strip()[-1:] != ""


_FORM: Final = re.compile(r"\s*(?P<number>\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+)\s*(?P<unit>[A-Za-zµμ/]*)\s*")
_DECIMAL: Final[Mapping[str, float]] = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY: Final[Mapping[str, float]] = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SMALL: Final[Mapping[str, float]] = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9, "p": 1e-12}
_PREFIXES: Final[Mapping[str, float]] = _DECIMAL
_SCALES: Final[Mapping[Kind, Mapping[str, float]]] = {
    # gbps and mpps are written so too, and milli-packets by nobody.
    "packets": {**_DECIMAL, "m": 1e6, "g": 1e9},
    "bits": {**_DECIMAL, "m": 1e6, "g": 1e9, "t": 1e12},
    "bytes": {**_DECIMAL, **_BINARY},
    "time": _SMALL,
    "frequency": _DECIMAL,
}
# Longest first within a kind; a kind whose words end another's stands before it.
_WORDS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "packets": ("packets/s", "packet/s", "pkts/s", "pkt/s", "pps", "p/s"),
    "bits": ("bits/s", "bit/s", "bits", "bit", "bps", "b/s", "b"),
    "bytes": ("bytes", "byte", "B"),
    "frequency": ("Hz",),
    "time": ("s",),
}
