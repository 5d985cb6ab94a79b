"""The conditions of `compare --fail-if`."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirespeed import InputError, gate
from wirespeed.gate import Metric
from wirespeed.result import change_text, judgement

OPS = st.sampled_from([">", "<", ">=", "<="])
NUMBERS = st.decimals(min_value=0, max_value=10**6, places=4, allow_nan=False).map(lambda d: f"{d:f}")
SPACES = st.sampled_from(["", " ", "  "])
TIME_METRICS = st.sampled_from(["p50", "p99", "p999", "mean", "ring", "row_conflict"])


def metric(**values: object) -> dict[str, Metric]:
    base: Metric = {
        "metric": "p99",
        "unit": "ns",
        "a": 1000.0,
        "b": 1060.0,
        "change_pct": 6.0,
        "half_width_pct": 0.5,
        "significant": True,
        "better": False,
    }
    return {"p99": base | values}  # type: ignore[operator, dict-item]


@given(TIME_METRICS, OPS, NUMBERS, st.sampled_from("+-"), SPACES)
def test_a_signed_percentage_is_a_change(name: str, op: str, number: str, sign: str, space: str) -> None:
    found = gate.parse(f"{space}{name}{space}{op}{space}{sign}{number}{space}%{space}")
    assert (found.metric, found.op, found.relative) == (name, op, True)
    assert found.value == float(sign + number)


@given(TIME_METRICS, OPS, NUMBERS, st.sampled_from([("ns", 1), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)]))
def test_a_time_is_read_in_nanoseconds(name: str, op: str, number: str, unit: tuple[str, float]) -> None:
    found = gate.parse(f"{name} {op} {number} {unit[0]}")
    assert not found.relative
    assert found.value == pytest.approx(float(number) * unit[1])


@given(NUMBERS, st.sampled_from([("pps", 1e-6), ("kpps", 1e-3), ("Mpps", 1), ("Gpps", 1e3)]))
def test_a_rate_is_read_in_mpps(number: str, unit: tuple[str, float]) -> None:
    assert gate.parse(f"carried_mpps<{number}{unit[0]}").value == pytest.approx(float(number) * unit[1])


def test_energy_is_in_nanojoules_and_has_no_other_units() -> None:
    assert gate.parse("dram_energy > 50 nJ").value == 50.0
    assert gate.parse("dram_energy > 1.5 uJ").value == 1500.0
    with pytest.raises(InputError, match="allowed are pJ nJ uJ"):
        gate.parse("dram_energy > 50 us")


def test_a_loss_is_a_share_or_a_percentage() -> None:
    assert gate.parse("loss > 0.001").value == 0.001
    assert gate.parse("loss > 0.1%").value == pytest.approx(0.001)
    assert gate.parse("loss > 1e-6").value == 1e-6
    assert gate.parse("loss > +10%").relative


@given(st.text(max_size=30))
def test_any_text_is_a_condition_or_an_input_error(text: str) -> None:
    try:
        found = gate.parse(text)
    except InputError:
        return
    assert found.metric in gate.METRICS
    assert math.isfinite(found.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p9 > +5%", "did you mean `p99`"),
        ("rign > 5 ns", "did you mean `ring`"),
        ("p99 > 5", "needs a unit; allowed are ns us ms s"),
        ("p99 > 5%", "say the direction of a change: +5% or -5%"),
        ("p99 > 5 Mpps", "`Mpps` is not a unit of p99"),
        ("carried_mpps < 5 us", "allowed are pps kpps Mpps Gpps"),
        ("loss > 3 us", "it has no unit `us`"),
        ("p99 == 5 us", "must be METRIC OP VALUE"),
        ("p99 >", "must be METRIC OP VALUE"),
        ("", "must be METRIC OP VALUE"),
        ("p99 > 1e999 us", "out of range"),
    ],
)
def test_a_wrong_condition_is_told_what_is_right(text: str, said: str) -> None:
    with pytest.raises(InputError) as e:
        gate.parse(text)
    assert said in str(e.value)


@pytest.mark.parametrize(
    ("condition", "change_pct", "half_width_pct", "outcome"),
    [
        ("p99 > +5%", 6.0, 0.5, "fails"),
        ("p99 > +5%", 6.0, 2.0, "within noise"),
        ("p99 > +5%", 4.0, 0.5, "ok"),
        ("p99 > +5%", 5.0, 0.0, "ok"),
        ("p99 >= +5%", 5.0, 0.0, "fails"),
        ("p99 > +5%", 4.0, 1.5, "within noise"),
        ("p99 > +5%", 0.0, 60.0, "within noise"),
        ("p99 > +5%", 0.0, 5.0, "ok"),
        ("p99 > +5%", 1.0, None, "within noise"),
        ("p99 < -2%", -3.0, 0.5, "fails"),
        ("p99 < -2%", -3.0, 1.5, "within noise"),
        ("p99 <= -2%", -1.0, 0.5, "ok"),
    ],
)
def test_a_change_fails_only_beyond_its_half_width_and_passes_only_where_that_is_beyond_the_limit(
    condition: str, change_pct: float, half_width_pct: float | None, outcome: str
) -> None:
    given_metric = metric(change_pct=change_pct, half_width_pct=half_width_pct, significant=half_width_pct == 0.5)
    found = gate.judge(gate.parse(condition), given_metric)
    assert found.outcome == outcome
    assert ("more packets decide" in found.sentence) == (outcome == gate.UNDECIDED)


@given(st.floats(-90, 900), st.floats(0, 50), st.floats(-90, 900), st.sampled_from([">", "<", ">=", "<="]))
def test_failing_means_that_every_value_in_the_interval_holds(
    change: float, half_width: float, limit: float, op: str
) -> None:
    condition = gate.Condition("x", "p99", op, limit, relative=True)  # type: ignore[arg-type]
    outcome = gate.judge(condition, metric(change_pct=change, half_width_pct=half_width)).outcome
    compare = {">": float.__gt__, "<": float.__lt__, ">=": float.__ge__, "<=": float.__le__}[op]
    both_ends = [compare(change + sign * half_width, limit) for sign in (-1.0, 1.0)]
    assert (outcome == "fails") == all(both_ends)
    assert (outcome == "ok") == (not any(both_ends))
    assert (outcome == gate.UNDECIDED) == (any(both_ends) and not all(both_ends))


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [("p99 > 1050 ns", "fails"), ("p99 > 1059 ns", "within noise"), ("p99 > 2 us", "ok"), ("p99 < 2 us", "fails")],
)
def test_a_value_is_judged_with_the_half_width_of_the_difference(condition: str, outcome: str) -> None:
    assert gate.judge(gate.parse(condition), metric()).outcome == outcome


def test_a_value_is_judged_with_its_own_half_width_where_that_is_known() -> None:
    # Whatever the baseline's noise: here a loss of 14 ± 1.4 % beside none.
    loss = metric(metric="loss", a=0.14, b=0.0, change_pct=-100.0, half_width_pct=10.0, b_half_width=0.0)["p99"]
    assert gate.judge(gate.parse("loss > 0.001"), {"loss": loss}).outcome == "ok"
    assert gate.judge(gate.parse("p99 > 1059 ns"), metric(b_half_width=0.5)).outcome == "fails"


def test_a_change_from_zero_counts_where_the_comparison_calls_it_significant() -> None:
    loss = {"metric": "loss", "unit": "", "a": 0.0, "b": 0.01, "change_pct": None, "half_width_pct": None}
    for significant, outcome in ((True, "fails"), (False, "within noise")):
        metrics = {"loss": loss | {"significant": significant}}
        assert gate.judge(gate.parse("loss > +5%"), metrics).outcome == outcome  # type: ignore[arg-type]
        assert gate.judge(gate.parse("loss > 0.001"), metrics).outcome == outcome  # type: ignore[arg-type]
    same = {"loss": loss | {"b": 0.0, "significant": False}}
    assert gate.judge(gate.parse("loss > +5%"), same).outcome == "ok"  # type: ignore[arg-type]


def test_a_metric_that_the_runs_lack_is_an_input_error() -> None:
    with pytest.raises(InputError, match="the runs do not report `copy`"):
        gate.judge(gate.parse("copy > +5%"), metric())


def dead(**values: object) -> dict[str, Metric]:
    """A comparison with a machine that forwards nothing."""
    carried = {"metric": "carried_mpps", "unit": "Mpps", "a": 9.0, "b": 0.0, "change_pct": -100.0}
    nothing = metric(b=None, change_pct=None, half_width_pct=None, significant=False, better=None, **values)
    ring = nothing["p99"] | {"metric": "ring", "b": 0.0, "change_pct": -100.0}
    return nothing | {"carried_mpps": carried, "ring": ring}  # type: ignore[return-value, dict-item]


@pytest.mark.parametrize("condition", ["p99 > +5%", "p99 > 20 us", "p99 < 20 us", "ring > +5%", "ring > 1 us"])
def test_a_machine_that_forwards_nothing_fails_every_condition_on_time(condition: str) -> None:
    found = gate.judge(gate.parse(condition), dead())
    assert found.outcome == "fails"
    assert "nothing was carried" in found.sentence
    # What is measured of it is judged as ever.
    assert gate.judge(gate.parse("carried_mpps < 5 Mpps"), dead()).outcome != "ok"


def test_what_neither_has_is_not_known_and_no_pass() -> None:
    found = gate.judge(gate.parse("p99 > +5%"), dead(a=None))
    assert found.outcome == "not known"
    assert found.outcome in gate.NO_PASS
    # A value needs no baseline, a change does.
    alone = metric(a=None, change_pct=None, half_width_pct=None, b_half_width=5.0)
    assert gate.judge(gate.parse("p99 > +5%"), alone).outcome == "not known"
    assert gate.judge(gate.parse("p99 > 1 us"), alone).outcome == "fails"
    assert gate.judge(gate.parse("p99 > 1058 ns"), alone).outcome == "within noise"
    assert gate.judge(gate.parse("p99 > 2 us"), alone).outcome == "ok"


def test_a_change_that_is_not_known_is_not_called_none() -> None:
    row = dead()["p99"]
    assert (change_text(row), judgement(row)) == ("–", "")
