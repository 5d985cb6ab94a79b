"""Numbers as a person reads them: durations, rates, shares and counts as short text.

Every function takes a number, or None, or a number that is not finite, and never raises on data: what is no number is
shown as `–`. Text only; no function here decides anything.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from typing import Final, TypeGuard

MISSING: Final = "–"

# Largest first: the unit is the first one whose least value is reached.
_TIME_UNITS: Final[Sequence[tuple[float, str]]] = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (0.1, "ns"), (0.0, "ps"))
_UNIT_NS: Final = {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1.0, "ps": 1e-3}
_PACKET_RATES: Final[Sequence[tuple[float, str]]] = ((1.0, "Mpps"), (1e-3, "kpps"), (1e-6, "pps"))
_BIT_RATES: Final[Sequence[tuple[float, str]]] = ((1.0, "Gbps"), (1e-3, "Mbps"), (1e-6, "kbps"), (1e-9, "bps"))
# Rates stay in a unit down to this share of it: 0.5 Mpps is beside 8 Mpps what it is, 0.00042 Mpps is 420 pps.
_STAYS_TO: Final = 0.01
# Below this a number has an exponent: nobody counts zeros.
_ZEROS: Final = 1e-4
# The least change that is told, in percent: runs differ by more.
LEAST_CHANGE: Final = 0.01
# More percent than this are told as a multiple: nobody counts so many.
MULTIPLE: Final = 1000.0
_MORE: Final = re.compile(r"(?P<percent>\d[\d,]*(?:\.\d+)?) % more\b")
_COUNT_UNITS: Final[Sequence[tuple[float, str]]] = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_UNITS: Final = re.compile(r"(?P<number>\d) (?P<unit>%|(?:s|ms|µs|ns|ps|[kM]?pps|[GMk]?bps|GB/s|Gbit/s|Mpps)\b)")
# What rounds to the next unit is shown in that unit: 999.96 ns is 1.00 µs.
_ROUNDS_UP: Final = 0.9995


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is an int or float that is finite. A bool is not a number here."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def digits(value: float | None, significant: int = 3) -> str:
    """`value` with at least `significant` digits and thousands separated; with an exponent only below 0.0001.

    >>> digits(4.1234), digits(41.234), digits(41234.0), digits(0.041234), digits(0.00000219)
    ('4.12', '41.2', '41,234', '0.0412', '2.19e-6')
    """
    if not is_number(value):
        return MISSING
    if value == 0:
        return "0"
    if abs(value) < _ZEROS:
        mantissa, small = f"{value:.{significant - 1}e}".split("e")
        return f"{mantissa}e{int(small)}"
    exponent = int(f"{value:.{significant - 1}e}".split("e")[1])  # after rounding: 9.996 has that of 10.0
    decimals = max(0, significant - 1 - exponent)
    return f"{value:,.{min(decimals, 12)}f}"


def duration(ns: float | None) -> str:
    """A time in nanoseconds, in the unit that suits it; a mean below a picosecond, the simulator's clock, is no time.

    >>> duration(812.4), duration(4123.0), duration(2.5e6), duration(0.0123), duration(0.00000219)
    ('812 ns', '4.12 µs', '2.50 ms', '12.3 ps', '< 1 ps')
    """
    if not is_number(ns):
        return MISSING
    if ns == 0:
        return "0 ns"
    if abs(ns) < _UNIT_NS["ps"]:
        return "< 1 ps" if ns > 0 else "> -1 ps"
    scale, unit = _time_unit(ns)
    return f"{digits(ns / scale)} {unit}"


def interval(ns: float | None, half_width_ns: float | None) -> str:
    """A time with its 95 % half-width, both in the unit that suits the time; below a picosecond both are no time.

    >>> interval(4123.0, 12.0), interval(4123.0, None), interval(4123.0, 0.1), interval(1e-7, 1e-8)
    ('4.123 ± 0.012 µs', '4.12 µs', '4.123 ± < 0.001 µs', '< 1 ps')
    """
    if not is_number(ns):
        return MISSING
    if not is_number(half_width_ns) or half_width_ns <= 0 or max(abs(ns), half_width_ns) < _UNIT_NS["ps"]:
        return duration(ns)
    scale, unit = _time_unit(ns or half_width_ns)
    # What is too small for a number in the unit is not nothing.
    wide = max(half_width_ns / scale, sys.float_info.min)
    # As many decimals as give the half-width two digits, and no more than the value can carry.
    decimals = min(max(0, 1 - math.floor(math.log10(wide))), 3)
    step = 10.0**-decimals
    about = f"< {step:.{decimals}f}" if wide < step / 2 else f"{wide:,.{decimals}f}"
    return f"{ns / scale:,.{decimals}f} ± {about} {unit}"


def ends(low: float, high: float) -> str:
    """A time from its least to its most, in nanoseconds: both in the unit of the larger, as exact as they are apart.

    >>> ends(1960.0, 1972.0), ends(0.0, 5e6), ends(100.0, 100.0)
    ('1.960 to 1.972 µs', '0.0 to 5.0 ms', '100 to 100 ns')
    """
    scale, unit = _time_unit(high)
    wide = (high - low) / 2 / scale
    if wide <= 0:
        return f"{digits(low / scale)} to {digits(high / scale)} {unit}"
    decimals = min(max(0, 1 - math.floor(math.log10(wide))), 3)
    return f"{low / scale:,.{decimals}f} to {high / scale:,.{decimals}f} {unit}"


def sides(value: float, low: float, high: float) -> str:
    """How far the ends of an interval are from a time, in nanoseconds: both sides where they differ as told.

    A side that is nothing as told is left out: the value is that end of its interval.

    >>> sides(12_300.0, 11_900.0, 14_200.0), sides(100.0, 90.0, 110.0), sides(100.0, 100.0, 100.0)
    ('(-0.4, +1.9 µs)', '± 10.0 ns', '')
    >>> sides(2_240.0, 2_235.9, 2_240.0), sides(2_240.0, 2_239.99, 2_244.1)
    ('(-4.1 ns)', '(+4.1 ns)')
    """
    below, above = max(value - low, 0.0), max(high - value, 0.0)
    if max(below, above) <= 0:
        return ""
    scale, unit = _time_unit(max(below, above))
    # As many decimals as give the longer side two digits.
    decimals = min(max(0, 1 - math.floor(math.log10(max(below, above) / scale))), 3)
    low_side, high_side = (f"{side / scale:,.{decimals}f}" for side in (below, above))
    if low_side == high_side:
        return f"± {duration(above)}"
    nothing = f"{0:.{decimals}f}"
    both = [f"{sign}{side}" for sign, side in (("-", low_side), ("+", high_side)) if side != nothing]
    return f"({', '.join(both)} {unit})"


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
    """A relative change in percent, with its sign, and as a multiple where it is large; the baseline may be zero.

    >>> change(5.25), change(-0.04), change(0.0), change(float('inf')), change(-0.0000219), change(6860747.0)
    ('+5.2 %', '-0.040 %', '0 %', 'from zero', '> -0.01 %', '68,608 times as much')
    """
    if is_number(percent) and percent >= MULTIPLE:
        return f"{digits(1 + percent / 100)} times as much"
    return change_pct(percent)


def change_pct(percent: float | None) -> str:
    """A relative change as `change` has it, in percent however large it is.

    >>> change_pct(6860747.0)
    '+6,860,747 %'
    """
    if not isinstance(percent, int | float) or math.isnan(percent):
        return MISSING
    if math.isinf(percent):
        return "from zero"
    if percent == 0:
        return "0 %"
    if abs(percent) < LEAST_CHANGE:
        return f"< +{LEAST_CHANGE} %" if percent > 0 else f"> -{LEAST_CHANGE} %"
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
    """A packet rate, given in millions of packets per second.

    >>> mpps(8.1), mpps(0.042), mpps(0.0042), mpps(0.0000042)
    ('8.10 Mpps', '0.0420 Mpps', '4.20 kpps', '4.20 pps')
    """
    return _rate(value, _PACKET_RATES)


def gbps(value: float | None) -> str:
    """A bit rate, given in 10^9 bits per second.

    >>> gbps(40.0), gbps(0.00042)
    ('40.0 Gbps', '0.420 Mbps')
    """
    return _rate(value, _BIT_RATES)


def multiples(text: str) -> str:
    """Text in which what is more by a great many percent is so many times as much.

    >>> multiples("6860747 % more could be offered; line rate is 104 % more")
    '68,608 times as much could be offered; line rate is 104 % more'
    """

    def told(found: re.Match[str]) -> str:
        percent = float(found["percent"].replace(",", ""))
        return f"{digits(1 + percent / 100)} times as much" if percent >= MULTIPLE else found[0]

    return _MORE.sub(told, text)


def unbroken(text: str) -> str:
    """Text in which no line ends between a number and its unit.

    >>> unbroken("4.12 µs are 5 % of 8 things").replace("\u00a0", "_")
    '4.12_µs are 5_% of 8 things'
    """
    return _UNITS.sub("\\g<number>\u00a0\\g<unit>", text)


def _rate(value: float | None, units: Sequence[tuple[float, str]]) -> str:
    if not is_number(value):
        return MISSING
    last = units[-1]
    scale, unit = next(((scale, unit) for scale, unit in units if value == 0 or abs(value) >= scale * _STAYS_TO), last)
    return f"{digits(value / scale)} {unit}"


def _time_unit(ns: float) -> tuple[float, str]:
    unit = next(unit for least, unit in _TIME_UNITS if abs(ns) >= least * _ROUNDS_UP)
    return _UNIT_NS[unit], unit


def capital(text: str) -> str:
    """A sentence as it begins.

    >>> capital("those of p99")
    'Those of p99'
    """
    return text[:1].upper() + text[1:]
