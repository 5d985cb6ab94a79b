"""Overrides as they are written on a command line: `path=value`, the value in TOML."""

from __future__ import annotations

import tomllib


def parsed(override: str) -> tuple[str, object]:
    """The path and the value of an override; a value that is no TOML is text.

    >>> parsed("machine.cores=4"), parsed("machine.processor = xeon-gold-6140")
    (('machine.cores', 4), ('machine.processor', 'xeon-gold-6140'))
    """
    path, _, text = override.partition("=")
    try:
        return path.strip(), tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return path.strip(), text.strip()
