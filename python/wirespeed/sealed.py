"""Documents that carry a checksum of their own content, so that what is read back is what was written.

The checksum is BLAKE2b over the document's values in a form of their own (names sorted, no white space): a document
that was only laid out anew is still whole, one in which a value was changed is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from wirespeed import files

CHECKSUM: Final = "checksum"


def parse(text: str | bytes) -> Any:
    """JSON as Python has it. Raises ValueError for what is none, also for what is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def seal(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with its checksum as the last of its values."""
    rest = {name: value for name, value in document.items() if name != CHECKSUM}
    return rest | {CHECKSUM: _of(rest)}


def is_whole(document: Mapping[str, Any]) -> bool:
    """Whether a document has the checksum that its other values have."""
    return document.get(CHECKSUM) == _of({name: value for name, value in document.items() if name != CHECKSUM})


def _of(document: Mapping[str, Any]) -> str:
    return files.digest(json.dumps(document, sort_keys=True, separators=(",", ":")).encode("utf-8", "surrogatepass"))
