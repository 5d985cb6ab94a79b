"""What a file is by its first bytes, to tell a capture from a prefix table before either is read.

Only what is certain is told: libpcap and pcapng by their magic, MRT dumps by two records behind each other, lists by
their first prefix. TSH and ERF have no magic: they are not known here, and the readers find out.
"""

from __future__ import annotations

import gzip
import ipaddress
import lzma
import zlib
from pathlib import Path
from typing import Final, Literal

Kind = Literal["capture", "prefix table"]

_HEAD: Final = 1 << 16
_GZIP: Final = b"\x1f\x8b"
_XZ: Final = b"\xfd7zXZ"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
# libpcap in microseconds, in nanoseconds and as modified by Kuznetzov, in both byte orders; pcapng.
_MAGICS: Final = tuple(bytes.fromhex(name) for name in ("a1b2c3d4", "a1b23c4d", "a1b2cd34"))
_CAPTURES: Final = (*_MAGICS, *(magic[::-1] for magic in _MAGICS), b"\x0a\x0d\x0d\x0a")
# MRT's header is seconds (4 bytes), type (2), subtype (2) and length (4); types of tables are TABLE_DUMP and
# TABLE_DUMP_V2 (RFC 6396).
_MRT_HEADER: Final = 12
_MRT_TABLES: Final = (12, 13)


def of(path: Path) -> Kind | None:
    """What a file is; None where that is not certain: of a pipe, which is not touched, or where there is no file."""
    if not path.is_file():
        return None
    try:
        head = _head(path)
    except (OSError, EOFError, lzma.LZMAError, zlib.error):
        return None
    if head.startswith(_CAPTURES):
        return "capture"
    return "prefix table" if _is_mrt(head) or _is_list(head) else None


def _head(path: Path) -> bytes:
    """The first bytes, decompressed. Raises OSError, EOFError, LZMAError or zlib.error where it is broken."""
    with path.open("rb") as plain:
        magic = plain.read(6)
        plain.seek(0)
        if magic.startswith(_GZIP):
            with gzip.open(plain) as stream:
                return stream.read(_HEAD)
        if magic.startswith(_XZ):
            with lzma.open(plain) as packed:
                return packed.read(_HEAD)
        if magic.startswith(_ZSTD):
            import pyarrow as pa  # a tenth of a second, for these files alone

            with pa.input_stream(plain, compression="zstd") as opened:
                return bytes(opened.read(_HEAD))
        return plain.read(_HEAD)


def _is_mrt(head: bytes) -> bool:
    at = 0
    for _ in range(2):
        if len(head) < at + _MRT_HEADER or int.from_bytes(head[at + 4 : at + 6], "big") not in _MRT_TABLES:
            return False
        at += _MRT_HEADER + int.from_bytes(head[at + 8 : at + 12], "big")
        if at == len(head) < _HEAD:
            return True  # a dump of one record
    return True


def _is_list(head: bytes) -> bool:
    """Whether the first line that is no comment begins with a prefix."""
    lines = head.decode("ascii", errors="replace").splitlines()
    first = next((words for line in lines if (words := line.split()) and words[0][0] not in "#;%"), [""])[0]
    try:
        ipaddress.ip_network(first, strict=False)
    except ValueError:
        return False
    return True
