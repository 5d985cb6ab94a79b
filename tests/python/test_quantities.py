"""Numbers as text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wirespeed import quantities as q

ANYTHING = st.one_of(st.none(), st.floats(), st.integers(-(10**30), 10**30), st.text(max_size=3), st.booleans())
ALL = [q.digits, q.duration, q.share, q.change, q.probability, q.count, q.short_count, q.mpps, q.gbps]


@pytest.mark.parametrize("function", ALL)
@given(value=ANYTHING)
def test_no_value_raises_and_none_gives_an_exponent_for_a_person(function: Any, value: Any) -> None:
    assert function(value)


@example(1000.0, 5e-324)
@given(ANYTHING, ANYTHING)
def test_no_interval_raises(value: Any, half_width: Any) -> None:
    assert q.interval(value, half_width)


@given(st.floats(1e-3, 1e13))
def test_a_duration_reads_back_within_its_digits(ns: float) -> None:
    number, unit = q.duration(ns).split(" ")
    scale = {"ps": 1e-3, "ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
    assert float(number.replace(",", "")) * scale == pytest.approx(ns, rel=5.1e-3)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (999.4, "999 ns"),
        (999.6, "1.00 µs"),
        (999_999.0, "1.00 ms"),
        (0.0, "0 ns"),
        (0.5, "0.500 ns"),
        (0.05, "50.0 ps"),
        (0.00219, "2.19 ps"),
        (0.00000219, "< 1 ps"),
        (-0.00000219, "> -1 ps"),
    ],
)
def test_what_rounds_up_moves_to_the_next_unit(ns: float, text: str) -> None:
    assert q.duration(ns) == text


def test_a_half_width_has_the_unit_of_its_value() -> None:
    assert q.interval(9065.1, 123.6) == "9.07 ± 0.12 µs"
    assert q.interval(14_000.0, float("nan")) == "14.0 µs"
    assert q.interval(float("nan"), 1.0) == q.MISSING


def test_an_interval_below_a_picosecond_is_no_time() -> None:
    assert q.interval(1e-7, 1e-8) == "< 1 ps"
    assert q.interval(-1e-7, 1e-8) == "> -1 ps"
    assert q.interval(0.0, 1e-8) == "0 ns"
    # A picosecond is a time; what is uncertain by a picosecond or more keeps its half-width.
    assert q.interval(0.001, 1e-5) == "1.000 ± 0.010 ps"
    assert q.interval(1e-7, 0.05) == "0 ± 50 ps"
    assert q.interval(4123.0, 1e-5) == "4.123 ± < 0.001 µs"


@given(st.one_of(st.floats(1e-12, 1e12), st.floats(-1e12, -1e-12)))
def test_no_quantity_begins_with_a_row_of_zeros(value: float) -> None:
    for function in (q.digits, q.duration, q.change, q.mpps, q.gbps, q.short_count, q.probability):
        text = function(value).lstrip("<>+- ")
        assert not text.startswith("0.00000"), f"{function.__name__}: {text}"


@given(st.one_of(st.floats(1e-12, 1e12), st.floats(-1e12, -1e-12)), st.floats(1e-12, 1e12))
def test_no_interval_has_a_row_of_zeros(value: float, half_width: float) -> None:
    text = q.interval(value, half_width)
    for number in text.split(" ± "):
        assert not number.lstrip("<>- ").startswith(("0.000", "0.00 ")), text


def test_the_unit_of_a_rate_suits_it() -> None:
    assert (q.mpps(0.0), q.mpps(0.00042), q.mpps(4.2e-9)) == ("0 Mpps", "0.420 kpps", "0.00420 pps")
    assert (q.gbps(0.0), q.gbps(0.0042), q.gbps(4.2e-9)) == ("0 Gbps", "4.20 Mbps", "4.20 bps")
    assert q.interval(0.0, 0.05) == "0 ± 50 ps"
