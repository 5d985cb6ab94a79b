"""How long a room takes: as it was measured, on which host and when."""

from __future__ import annotations

import datetime
import json
import tomllib
from dataclasses import dataclass
from typing import Final

from wirespeed import quantities as q
from wirespeed.errors import InputError

TAKES: Final = "takes.toml"
_FIELDS: Final = ("seconds", "host", "date", "version")


@dataclass(frozen=True, slots=True)
class Takes:
    """What a run of the default readings took, on one thread, with nothing kept from before."""

    seconds: float
    """Of CPU, all threads and processes together: what else runs on a host hardly moves them."""
    host: str
    date: datetime.date
    version: str
    """Of wirespeed, that was measured."""

    def __str__(self) -> str:
        """In words.

        >>> str(Takes(51.23, "AMD EPYC x2", datetime.date(2026, 11, 26), "0.1.0"))
        '51 s of CPU (AMD EPYC x2, 2026-11-26)'
        """
        return f"{q.digits(self.seconds, 2)} s of CPU ({self.host}, {self.date})"


def parse(text: str, origin: str) -> Takes:
    """Reads `takes.toml`. Raises InputError with the file for what cannot be used."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise InputError(f"{origin}: is no TOML: {e}") from None
    faults = [f"`{name}` lacks" for name in _FIELDS if name not in found]
    faults += [f"`{name}` is none of {', '.join(_FIELDS)}" for name in found if name not in _FIELDS]
    seconds, date = found.get("seconds"), found.get("date")
    if "seconds" in found and not (q.is_number(seconds) and seconds > 0):
        faults.append(f"`seconds` is {seconds!r}: a number above 0 is wanted")
    if "date" in found and type(date) is not datetime.date:
        faults.append(f"`date` is {date!r}: a day such as 2026-11-26 is wanted")
    if faults:
        raise InputError(f"{origin}: {'; '.join(faults)}; `python -m wirespeed.papers.clock` writes it")
    return Takes(float(found["seconds"]), str(found["host"]), found["date"], str(found["version"]))


def written(takes: Takes) -> str:
    """As it stands in the file."""
    return (
        "# A run of the default readings on one thread, with nothing kept from before: seconds of CPU.\n"
        "# `python -m wirespeed.papers.clock` measures it.\n"
        f"seconds = {takes.seconds:.4g}\nhost = {json.dumps(takes.host)}\ndate = {takes.date}\n"
        f"version = {json.dumps(takes.version)}\n"
    )
