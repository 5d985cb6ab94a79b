"""Parts of the catalogue that operators' words name: processors, NICs, drivers, and what rings a driver takes.

A processor that is not shipped takes the nearest one of its architecture. Ring limits are those of DPDK 26.07.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from wirespeed import _wirespeed, units
from wirespeed.operators.facts import Value


@dataclass(frozen=True, slots=True)
class Part:
    """A shipped part, and whether it is the very one that was named; why where it is not."""

    preset: str
    is_exact: bool
    why: str = ""


# Decimal family and model of lscpu, least and most stepping, and a shipped processor of that architecture.
_MODELS: Final[tuple[tuple[int, int, int, int, str, bool], ...]] = (
    (6, 63, 0, 99, "xeon-e5-2699-v3", True),  # Haswell-EP
    (6, 79, 0, 99, "xeon-e5-2697a-v4", True),  # Broadwell-EP
    (6, 85, 0, 4, "xeon-gold-6140", True),  # Skylake-SP
    (6, 85, 5, 99, "xeon-gold-6248r", True),  # Cascade Lake-SP; Cooper Lake from stepping 10
    (6, 106, 0, 99, "xeon-platinum-8380", True),  # Ice Lake-SP
    (6, 108, 0, 99, "xeon-gold-6338", True),  # Ice Lake-D
    (6, 143, 0, 99, "xeon-platinum-8480", True),  # Sapphire Rapids
    (6, 207, 0, 99, "xeon-platinum-8562y-plus", True),  # Emerald Rapids
    (6, 173, 0, 99, "xeon-platinum-8562y-plus", False),  # Granite Rapids
    (23, 49, 0, 99, "epyc-7742", True),  # Zen 2
    (25, 1, 0, 99, "epyc-7763", True),  # Zen 3
    (25, 17, 0, 99, "epyc-9654", True),  # Zen 4
    (25, 160, 0, 99, "epyc-9654", True),  # Zen 4c
)
# By words of a name, where there are no numbers; the second digit of a Xeon Scalable is its generation.
_NAMES: Final[tuple[tuple[str, str, bool], ...]] = (
    (r"xeon-(gold|platinum|silver|bronze)-\d1\d\d", "xeon-gold-6140", True),
    (r"xeon-(gold|platinum|silver|bronze)-\d2\d\d", "xeon-gold-6248r", True),
    (r"xeon-(gold|platinum|silver|bronze)-\d3\d\d", "xeon-platinum-8380", True),
    (r"xeon-(gold|platinum|silver|bronze)-\d4\d\d", "xeon-platinum-8480", True),
    (r"xeon-(gold|platinum|silver|bronze)-\d5\d\d", "xeon-platinum-8562y-plus", True),
    (r"xeon-e5-\d+\w*-v3", "xeon-e5-2699-v3", True),
    (r"xeon-e5-\d+\w*-v4", "xeon-e5-2697a-v4", True),
    (r"epyc-7\d\d?2", "epyc-7742", True),
    (r"epyc-7\d\d?3", "epyc-7763", True),
    (r"epyc-9\d\d?4", "epyc-9654", True),
    (r"epyc", "epyc-9654", False),
    (r"neoverse-v2|grace", "neoverse-v2-grace", True),
    (r"neoverse|arm|cortex", "neoverse-v2-grace", False),
    (r"cortex-a78|bluefield", "cortex-a78ae-bluefield-3", True),
    (r"xeon|intel|genuineintel", "xeon-platinum-8480", False),
    (r"amd|authenticamd", "epyc-9654", False),
)
ASSUMED_PROCESSOR: Final = "xeon-gold-6140"
"""What is taken where no file names one."""


@cache
def shipped(kind: str) -> frozenset[str]:
    """Names of the shipped parts of a kind."""
    return frozenset(name for of, name, _ in _wirespeed.presets() if of == kind)


def slug(name: str) -> str:
    """A processor's name as the catalogue spells it.

    >>> slug("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz"), slug("AMD EPYC 7402P 24-Core Processor")
    ('xeon-e5-2680-v4', 'epyc-7402p')
    """
    bare = re.sub(r"\((r|tm)\)|@.*|\b(cpu|intel|amd|processor|\d+-core)\b", " ", name.lower())
    return re.sub(r"[^a-z0-9]+", "-", bare.replace("+", " plus ")).strip("-")


def processor(facts: Mapping[str, Value]) -> Part:
    """The shipped processor that is named, or the nearest of its architecture."""
    name = slug(str(facts.get("cpu", "")))
    for spelled in (name, name.removesuffix("-plus")):
        if spelled in shipped("processor"):
            return Part(spelled, True)
    numbers = [facts.get(fact) for fact in ("cpu_family", "cpu_number", "cpu_stepping")]
    if all(isinstance(each, int) for each in numbers):
        family, model, stepping = numbers
        for of, number, least, most, preset, same in _MODELS:
            if (of, number) == (family, model) and least <= int(stepping or 0) <= most:
                return Part(preset, False, _near(preset, same))
    words = f"{name} {str(facts.get('cpu_vendor', '')).lower()}"
    for pattern, preset, same in _NAMES:
        if re.search(pattern, words):
            return Part(preset, False, _near(preset, same))
    return Part(ASSUMED_PROCESSOR, False, "no file names a processor that is known")


def _near(preset: str, same: bool) -> str:
    return f"the nearest shipped: {'of its architecture' if same else 'its architecture is not shipped'}"


@cache
def resolved(settings: str) -> Mapping[str, Any]:
    """The scenario of some settings in TOML, with everything filled in."""
    found: dict[str, Any] = tomllib.loads(_wirespeed.Scenario(settings, "<text>", []).resolved)
    return found


# By words of a NIC's name, the first that fits: the NIC and its usual driver.
_NICS: Final[tuple[tuple[str, str, str], ...]] = (
    (r"bluefield-?3", "bluefield-3", "mlx5"),
    (r"connectx-7|cx7|15b3:1021", "connectx-7", "mlx5"),
    (r"connectx-6 ?dx|cx6dx|15b3:101d", "connectx-6-dx", "mlx5"),
    (r"connectx-6|cx6|15b3:101b", "connectx-6", "mlx5"),
    (r"connectx-5 ?ex|15b3:1019", "connectx-5-ex", "mlx5"),
    (r"connectx-5|cx5\d\d|15b3:1017", "connectx-5", "mlx5"),
    (r"connectx-4 ?lx|15b3:1015", "connectx-4-lx", "mlx5-send"),
    (r"connectx-4|15b3:1013", "connectx-4", "mlx5-send"),
    (r"e8[123]0|8086:(1592|1593|159b|1591)", "e810", "ice"),
    (r"xxv710|8086:158[ab]", "xxv710", "i40e"),
    (r"x(l?)710|8086:(1572|1583|1584)", "xl710", "i40e"),
    (r"82599|x520|x540|x55\d|8086:(10fb|1528|1563)", "82599", "ixgbe"),
    (r"nfp-?6000", "nfp-6000", ""),
)
# What a driver is called by the kernel, by DPDK and by VPP, the shipped driver, and the NIC that it is taken for.
_DRIVERS: Final[tuple[tuple[str, str, str], ...]] = (
    (r"(net_)?ice", "ice", "e810"),
    (r"(net_)?i40e", "i40e", "xl710"),
    (r"(net_)?ixgbe", "ixgbe", "82599"),
    (r"mlx5(_core|_pci|_eth)?|net_mlx5", "mlx5", ""),
    (r"rdma", "vpp-rdma", ""),
)
_MELLANOX: Final = ((25e9, "connectx-4-lx"), (50e9, "connectx-4"), (100e9, "connectx-5"), (200e9, "connectx-6"))
ANY_NIC: Final = "100g"


def nic(words: str) -> tuple[str, str] | None:
    """The shipped NIC that a name or a PCI id names, and its usual driver.

    >>> nic("Ethernet Controller E810-C for QSFP"), nic("virtio")
    (('e810', 'ice'), None)
    """
    return next(((model, of) for pattern, model, of in _NICS if re.search(pattern, words.lower())), None)


def driver(name: str) -> str | None:
    """The shipped driver that a driver's name names.

    >>> driver("mlx5_core"), driver("net_ice"), driver("virtio_net")
    ('mlx5', 'ice', None)
    """
    return next((preset for pattern, preset, _ in _DRIVERS if re.fullmatch(pattern, name.lower())), None)


def nic_of_driver(preset: str, link: float | None) -> str | None:
    """The NIC that a shipped driver is taken for, by the speed of its port."""
    found = next((model for _, of, model in _DRIVERS if of == preset), None)
    if found:
        return found
    if found is None:
        return None
    return next((model for speed, model in _MELLANOX if link is None or link <= speed), "connectx-7")


@dataclass(frozen=True, slots=True)
class RingLimits:
    """What rings a driver takes."""

    least: int
    most: int
    multiple: int
    power: bool = False
    """Whether only powers of two are taken."""

    @property
    def words(self) -> str:
        """The limits for people."""
        steps = "powers of two" if self.power else f"multiples of {self.multiple}" if self.multiple > 1 else ""
        return f"{self.least} to {self.most}{steps and ', '}{steps}"

    def nearest(self, wanted: int) -> int:
        """The largest ring that is allowed and no longer than `wanted`, or the least one.

        >>> RingLimits(64, 4096, 32).nearest(1000), RingLimits(64, 4096, 1, True).nearest(1000)
        (992, 512)
        """
        most = min(max(wanted, self.least), self.most)
        found = 1 << (most.bit_length() - 1) if self.power else most // self.multiple * self.multiple
        return max(found, self.least)


LIMITS: Final[Mapping[str, RingLimits]] = {
    "ixgbe": RingLimits(64, 8192, 8),
    "i40e": RingLimits(64, 8160, 32),
    "i40e-scalar": RingLimits(64, 8160, 32),
    "ice": RingLimits(64, 8160, 32),
    "mlx5": RingLimits(64, 8192, 1, power=True),
    "mlx5-send": RingLimits(64, 8192, 1, power=True),
    "mlx5-compressed": RingLimits(64, 8192, 1, power=True),
    "vpp-rdma": RingLimits(64, 8192, 1, power=True),
}
ANY_RING: Final = RingLimits(64, 4096, 32)
"""What every driver takes since DPDK 22.11."""


def resolved_size(words: str) -> int:
    """A size as a resolved scenario spells it, in bytes."""
    return units.size("size", words)


def resolved_rate(words: str) -> float:
    """A rate as a resolved scenario spells it, in bits a second."""
    return units.rate("rate", words).value


@cache
def mean_frame(profile: str) -> float:
    """The mean frame of a shipped profile of sizes, in bytes."""
    rows = tomllib.loads(_wirespeed.preset("traffic", profile))["sizes"]["histogram"]
    return float(sum(row["share"] * (row["bytes"] + row.get("to", row["bytes"])) / 2 for row in rows))
