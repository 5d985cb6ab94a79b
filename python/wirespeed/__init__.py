"""Tells whether a memory system keeps wire speed, and what to change so that it does.

result = wirespeed.run("forwarding", set={"machine.llc.core_ways": 8})
result.summary["loss"], result.report("report.html"), polars.DataFrame(result.packets)
"""

from wirespeed import interrupt as _interrupt  # noqa: F401 (before all that takes time to import)

# isort: split
from wirespeed import memory
from wirespeed._wirespeed import version as _version
from wirespeed.accuracy import accuracy
from wirespeed.advise import advise
from wirespeed.api import compare, inspect, inspect_table, resolve, run, schema, sensitivity
from wirespeed.errors import InputError
from wirespeed.gpu import gpu
from wirespeed.result import Comparison, Result, read
from wirespeed.size import size
from wirespeed.summary_types import Summary
from wirespeed.sweep import sweep
from wirespeed.tables import Table
from wirespeed.tune import tune

__version__ = _version()

__all__ = [
    "Comparison",
    "InputError",
    "Result",
    "Summary",
    "Table",
    "__version__",
    "accuracy",
    "advise",
    "compare",
    "gpu",
    "inspect",
    "inspect_table",
    "memory",
    "read",
    "resolve",
    "run",
    "schema",
    "sensitivity",
    "size",
    "sweep",
    "tune",
]
