"""Bounds of probabilities against exact softmax and against float32 programs that add in several orders."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Bool, Float

from factrank.certificates import (
    ConfidenceClaim,
    LogitIntervals,
    greatest_unit,
    largest_probability,
    least_probability,
)
from factrank.certificates.confidence import Confidence, confidence_from_plain
from factrank.errors import InputError

Logits = Float[np.ndarray, " values"]
SIZES = st.sampled_from([1e-3, 1.0, 30.0, 3000.0, 1e6, 1e8, 1e17])


def exact(logits: Logits, belongs: Bool[np.ndarray, " values"]) -> Decimal:
    """The probability of the values that belong, to 60 digits."""
    with localcontext() as context:
        context.prec, context.Emin = 60, -(10**15)
        top = Decimal(float(logits.max()))
        powers = [(Decimal(float(z)) - top).exp() for z in logits]
        return sum((p for p, one in zip(powers, belongs, strict=True) if one), Decimal(0)) / sum(powers)


def programs(logits: Logits, belongs: Bool[np.ndarray, " values"], kind: type) -> list[float]:
    """Softmax by programs in the type: two orders of adding, a division, and a logarithm with the largest added."""
    z = logits.astype(kind)
    powers = np.exp(z - z.max())
    totals = [kind(0), kind(0), powers.sum(dtype=kind)]
    for forth, back in zip(powers, powers[::-1], strict=True):
        totals[0], totals[1] = kind(totals[0] + forth), kind(totals[1] + back)
    found = [float((powers / total)[belongs].sum(dtype=kind)) for total in totals]
    logarithms = [kind(z.max() + np.log(total)) for total in totals]
    return found + [float(np.exp(z - one)[belongs].sum(dtype=kind)) for one in logarithms]


@st.composite
def intervals(draw: st.DrawFn) -> tuple[LogitIntervals, Logits, Bool[np.ndarray, " values"]]:
    """Intervals, logits in them that float32 can represent, and a fiber."""
    rng, n = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.integers(1, 6))
    size, share = draw(SIZES), draw(st.sampled_from([0.0, 1e-4, 0.1]))
    inside = (rng.normal(size=n) * size).astype(np.float32).astype(np.float64)
    if draw(st.booleans()):
        inside[:] = inside[0]  # a tie
    radii = np.abs(rng.normal(size=n)) * size * share
    ends = rng.choice([-1.0, 1.0], size=n) * draw(st.sampled_from([0.0, 1.0]))
    belongs = rng.random(n) < 0.5
    belongs[rng.integers(n)] = True
    return LogitIntervals((inside + ends * radii)[None], radii[None]), inside, belongs


@given(intervals())
def test_no_softmax_is_below_its_lower_bound(drawn: tuple[LogitIntervals, Logits, Bool[np.ndarray, " values"]]) -> None:
    """Exact, and by every program in float32 and float64."""
    given_, logits, belongs = drawn
    for precision, kind in (("float32", np.float32), ("float64", np.float64)):
        bound = float(least_probability(given_, belongs[None], precision)[0])
        assert Decimal(bound) <= exact(logits, belongs)
        assert bound <= min(programs(logits, belongs, kind))


@given(intervals(), st.integers(1, 3))
def test_no_softmax_is_above_its_upper_bound(
    drawn: tuple[LogitIntervals, Logits, Bool[np.ndarray, " values"]], most: int
) -> None:
    """Of the `most` best values, exact and by every program."""
    given_, logits, _ = drawn
    best = np.zeros(len(logits), dtype=bool)
    best[np.argsort(-logits)[:most]] = True
    for precision, kind in (("float32", np.float32), ("float64", np.float64)):
        bound = float(largest_probability(given_, np.ones(len(logits), dtype=bool), most, precision)[0])
        assert Decimal(bound) >= min(exact(logits, best), Decimal(1))
        assert bound >= min(max(programs(logits, best, kind)), 1.0)


@pytest.mark.parametrize("margin", [3.0, 20.0])
def test_the_bounds_are_close(margin: float) -> None:
    """A bound that proves nothing would pass all other tests."""
    logits = np.array([[margin, 0.0, 0.0, -1.0]])
    found = LogitIntervals(logits, np.zeros_like(logits))
    own = np.array([True, False, False, False])
    wanted = float(exact(logits[0], own))
    assert least_probability(found, own[None], "float32")[0] == pytest.approx(wanted, abs=1e-4)
    assert least_probability(found, own[None], "float64")[0] == pytest.approx(wanted, abs=1e-6)
    every = np.ones(4, dtype=bool)
    assert largest_probability(found, every, 1, "float32")[0] == pytest.approx(wanted, abs=1e-3)
    assert largest_probability(found, ~own, 3, "float64")[0] == pytest.approx(1 - wanted, abs=1e-6)


def test_a_tie_of_huge_logits_is_not_quiet() -> None:
    """In float32, 2^30 + log 2 is 2^30: a program that subtracts the logarithm finds the probability 1 twice."""
    logits = np.array([2.0**30, 2.0**30])
    first = np.array([True, False])
    assert max(programs(logits, first, np.float32)) == 1.0
    found = LogitIntervals(logits[None], np.zeros((1, 2)))
    assert largest_probability(found, np.ones(2, dtype=bool), 1, "float32")[0] == 1.0
    assert largest_probability(found, np.ones(2, dtype=bool), 1, "float64")[0] < 0.51


@pytest.mark.parametrize(("exponent", "is_lost"), [(-17.0, True), (-16.6, False)])
def test_many_small_values_are_lost_or_doubled(exponent: float, is_lost: bool) -> None:
    """Added to 1 one by one in float32, each counts for nothing or for twice as much."""
    logits = np.array([0.0, *[exponent] * 4000])
    own = logits == 0
    found = LogitIntervals(logits[None], np.zeros((1, len(logits))))
    computed = programs(logits, own, np.float32)
    assert (max(computed) == 1.0) == is_lost
    assert least_probability(found, own[None], "float32")[0] <= min(computed)
    assert largest_probability(found, np.ones(len(logits), dtype=bool), 1, "float32")[0] >= max(computed)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_proves_nothing(bad: float) -> None:
    """Overflow gives the trivial bounds."""
    logits = np.array([[bad, 0.0]])
    for radius in (0.0, bad):
        found = LogitIntervals(logits, np.full((1, 2), abs(radius)))
        with np.errstate(all="ignore"):
            if not bad > 0 or radius:
                assert least_probability(found, np.array([[True, False]]), "float32")[0] == 0.0
            assert not largest_probability(found, np.ones(2, dtype=bool), 1, "float32")[0] < 0.99


def test_the_unit_of_an_unembedding() -> None:
    """All numbers are multiples of it, and not all of twice as much."""
    rng = np.random.default_rng(0)
    for exponent in (-40, 0, 7):
        numbers = np.ldexp(rng.integers(-1000, 1000, size=20).astype(np.float64), exponent)
        unit = greatest_unit(numbers)
        assert (numbers / unit == np.rint(numbers / unit)).all()
        assert (numbers / (2 * unit) != np.rint(numbers / (2 * unit))).any()
    assert greatest_unit(np.zeros(3)) == 1.0
    assert greatest_unit(np.array([5e-324, 1.0])) == 5e-324


@pytest.mark.parametrize(
    "claim",
    [
        {"tau": 0.0},
        {"tau": 1.0},
        {"tau": float("nan")},
        {"tau": 0.5, "abstain": "quiet"},
        {"tau": 0.9, "abstain": "unknown"},
        {"tau": 0.9, "unknown": "x"},
        {"tau": 0.9, "abstain": "unknown", "unknown": ""},
    ],
)
def test_claims_that_make_no_sense(claim: dict[str, object]) -> None:
    """They are refused, also in files."""
    with pytest.raises(InputError):
        ConfidenceClaim(**claim)  # type: ignore[arg-type]


def test_a_confidence_survives_its_file_and_a_changed_one_is_noticed() -> None:
    """Every entry is compared."""
    found = Confidence(ConfidenceClaim(0.95, "quiet"), 0.99, 0.98, 0.5, 0.6)
    assert confidence_from_plain(found.plain()) == found
    assert found.differences(found) == ()
    for name, other in {"tau": 0.9, "abstain": None, "proved_probability": 0.97, "silent_probability": None}.items():
        assert name in found.differences(confidence_from_plain(found.plain() | {name: other}))
    for change in (
        {"probability": 2.0},
        {"proved_probability": None},
        {"more": 1},
        {"tau": 7},
        {"tau": True},
        {"abstain": "loud"},
    ):
        with pytest.raises(InputError):
            confidence_from_plain(found.plain() | change)


@pytest.mark.parametrize(
    ("numbers", "sound"),
    [
        ((0.95, 0.95), True),
        ((0.9499, 0.94), False),
        ((0.96, 0.9499), False),
        ((0.96, 0.97), False),
        ((float("nan"), 0.97), False),
        ((0.96, 0.95, 0.949, 0.9499), True),
        ((0.96, 0.95, 0.949, 0.95), False),
        ((0.96, 0.95, 0.95, 0.94), False),
        ((0.96, 0.95, 0.5, None), False),
    ],
)
def test_the_threshold_of_a_claim(numbers: tuple[float, ...], sound: bool) -> None:
    """Facts reach tau, both computed and proved; pairs without a fact stay below it."""
    claim = ConfidenceClaim(0.95, "quiet" if len(numbers) > 2 else None)
    assert (not Confidence(claim, *numbers).faults()) == sound


@pytest.mark.parametrize(
    ("computed", "proved", "sound"), [(0.95, 0.95, True), (0.94, 0.96, False), (0.96, 0.94, False)]
)
def test_the_reserved_value_reaches_the_threshold(computed: float, proved: float, sound: bool) -> None:
    """On pairs without a fact, computed and proved."""
    found = Confidence(ConfidenceClaim(0.95, "unknown", "none"), 0.99, 0.98, computed, proved)
    assert (not found.faults()) == sound


@pytest.mark.parametrize(("precision", "size"), [("float32", 2.0**26), ("float64", 2.0**54), ("float32", 2.0**90)])
def test_huge_equal_logits_are_not_proved_to_be_unsure(precision, size):
    """A logarithm of the sum that is added to the largest logit is lost: every value then has probability 1."""
    z = np.full((1, 3), size)
    found = largest_probability(LogitIntervals(z, np.zeros_like(z)), np.ones(3, bool), 1, precision)
    kind = {"float32": np.float32, "float64": np.float64}[precision]
    assert found[0] >= np.exp(z.astype(kind) - (z.max() + np.log(kind(3))).astype(kind)).max() == 1
