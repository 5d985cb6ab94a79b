"""Numbers as a person reads them: durations, rates, shares and counts as short text.

Every function takes a number, or None, or a number that is not finite, and never raises on data: what is no number is
shown as `–`. Text only; no function here decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeGuard

MISSING: Final = "–"

# Largest first: the unit that is used is the first one that the value reaches.
_TIME_UNITS: Final[Sequence[tuple[float, str]]] = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_COUNT_UNITS: Final[Sequence[tuple[float, str]]] = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
# What rounds to the next unit is shown in that unit: 999.96 ns is 1.00 µs.
_ROUNDS_UP: Final = 0.9995


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is an int or float that is finite. A bool is not a number here."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def digits(value: float | None, significant: int = 3) -> str:
    """`value` with at least `significant` digits, never in exponent form and with thousands separated.

    >>> digits(4.1234), digits(41.234), digits(41234.0), digits(0.041234)
    ('4.12', '41.2', '41,234', '0.0412')
    """
    if not is_number(value):
        return MISSING
    if value == 0:
        return "0"
    exponent = int(f"{value:.{significant - 1}e}".split("e")[1])  # after rounding: 9.996 has that of 10.0
    decimals = max(0, significant - 1 - exponent)
    return f"{value:,.{min(decimals, 12)}f}"


def duration(ns: float | None) -> str:
    """A time in nanoseconds, in the unit that suits it.

    >>> duration(812.4), duration(4123.0), duration(2.5e6)
    ('812 ns', '4.12 µs', '2.50 ms')
    """
    if not is_number(ns):
        return MISSING
    scale, unit = _time_unit(ns)
    return f"{digits(ns / scale)} {unit}"


def interval(ns: float | None, half_width_ns: float | None) -> str:
    """A time with its 95 % half-width, both in the unit that suits the time.

    >>> interval(4123.0, 12.0), interval(4123.0, None)
    ('4.123 ± 0.012 µs', '4.12 µs')
    """
    if not is_number(ns):
        return MISSING
    if not is_number(half_width_ns) or half_width_ns <= 0:
        return duration(ns)
    scale, unit = _time_unit(ns)
    wide = half_width_ns / scale
    # As many decimals as give the half-width two digits, and no more than the value can carry.
    decimals = min(max(0, 1 - math.floor(math.log10(wide))), 3)
    return f"{ns / scale:,.{decimals}f} ± {wide:,.{decimals}f} {unit}"


def share(part: float | None, decimals: int = 1) -> str:
    """A share in 0..1 as a percentage; what is positive yet rounds to nothing is shown as `< 0.1 %`.

    >>> share(0.5), share(0.00001), share(0.99999)
    ('50.0 %', '< 0.1 %', '> 99.9 %')
    """
    if not is_number(part):
        return MISSING
    step = 10.0**-decimals
    percent = part * 100
    if 0 < percent < step / 2:
        return f"< {step:.{decimals}f} %"
    if 100 - step / 2 < percent < 100:
        return f"> {100 - step:.{decimals}f} %"
    return f"{percent:.{decimals}f} %"


def change(percent: float | None) -> str:
    """A relative change in percent, with its sign; the baseline may have been zero.

    >>> change(5.25), change(-0.04), change(0.0), change(float('inf'))
    ('+5.2 %', '-0.040 %', '0 %', 'from zero')
    """
    if not isinstance(percent, int | float) or math.isnan(percent):
        return MISSING
    if math.isinf(percent):
        return "from zero"
    if percent == 0:
        return "0 %"
    sign = "+" if percent > 0 else "-"
    return f"{sign}{digits(abs(percent), 2)} %"


def probability(value: float | None, significant: int = 3) -> str:
    """A probability such as a loss, as a percentage down to 0.01 % and with an exponent below.

    >>> probability(0.0), probability(0.0123), probability(3e-6)
    ('0', '1.23 %', '3.0e-6')
    """
    if not is_number(value):
        return MISSING
    if value == 0:
        return "0"
    if abs(value) >= 1e-4:
        return f"{digits(value * 100, significant)} %"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def count(value: float | None) -> str:
    """A whole number with its thousands separated.

    >>> count(1000000)
    '1,000,000'
    """
    if not is_number(value):
        return MISSING
    return f"{round(value):,}"


def short_count(value: float | None) -> str:
    """A large count with three digits and a letter.

    >>> short_count(1234567), short_count(950)
    ('1.23 M', '950')
    """
    if not is_number(value):
        return MISSING
    for scale, letter in _COUNT_UNITS:
        if abs(value) >= scale * _ROUNDS_UP:
            return f"{digits(value / scale)} {letter}"
    return digits(value) if value != round(value) else str(round(value))


def mpps(value: float | None) -> str:
    """A packet rate in millions of packets per second.

    >>> mpps(8.1), mpps(0.0042)
    ('8.10 Mpps', '0.00420 Mpps')
    """
    return MISSING if not is_number(value) else f"{digits(value)} Mpps"


def gbps(value: float | None) -> str:
    """A bit rate in 10^9 bits per second.

    >>> gbps(40.0)
    '40.0 Gbps'
    """
    return MISSING if not is_number(value) else f"{digits(value)} Gbps"


def _time_unit(ns: float) -> tuple[float, str]:
    for scale, unit in _TIME_UNITS:
        if abs(ns) >= scale * _ROUNDS_UP:
            return scale, unit
    return _TIME_UNITS[-1]
