"""The drawing of charts, as a page has it: by Vega in the same worker."""

import json
from typing import Any

from wirespeed_page import draw as _draw


def vegalite_to_svg(spec: dict[str, Any]) -> str:
    return str(_draw(json.dumps(spec)))
