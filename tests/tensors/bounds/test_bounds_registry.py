"""The registry of bounds: a bound of one's own takes part, and what every bound declares is what decides."""

from math import inf
from pathlib import Path

import numpy as np
import pytest

from factrank.databases.database import Database
from factrank.databases.generators.named import matmul
from factrank.databases.sample_tables import sample
from factrank.errors import InputError
from factrank.tensors import bounds as bounds_package
from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound
from factrank.tensors.bounds.ledger import Ledger
from factrank.tensors.bounds.method import BoundMethod, Stage, findings
from factrank.tensors.bounds.registry import BOUNDS, MODULES, methods, register_bound, registered_bound
from factrank.tensors.bounds.upper.by_component import UpperBound
from factrank.tensors.bounds.upper.plain_bounds import facts_bound
from factrank.tensors.core.zero_one import Core, ZeroOneTensor
from factrank.tensors.measurement import measure

RANKS = ("rank", "completion rank", "effective rank")


def toy(value=1, of="rank", side="lower", **options):
    witness = None if side == "lower" else lambda: None
    given = {"stage": Stage.COUNT, "cost": lambda _: 0.0, "run": lambda _: [Bound(value, "toy", witness=witness)]}
    return BoundMethod(name="toy", of=of, side=side, **(given | options))


def brackets(measurement):
    return dict(zip(RANKS, measurement.brackets.values(), strict=True))


@pytest.mark.parametrize("of", RANKS)
def test_a_bound_of_ones_own_takes_part(of):
    plain = brackets(measure(sample("astrid")))
    with registered_bound(toy(of=of)):
        steps = []
        found = brackets(measure(sample("astrid"), on_step=steps.append))
    assert steps.count("toy") == 1
    for name in RANKS:
        tried = [(bound.method, bound.value) for bound in found[name].tried]
        assert (("toy", 1) in tried) == (name == of)
        assert [bound for bound in tried if bound[0] != "toy"] == [(b.method, b.value) for b in plain[name].tried]
        assert found[name].to_dict() == plain[name].to_dict()
    assert toy(of=of).name not in [method.name for method in methods(of)]


def test_it_can_improve_the_bracket():
    """The rank of 2 x 2 matrix multiplication is 7, which no bound here proves from below (Winograd 1971)."""
    with registered_bound(toy(7, stage=Stage.PROVE)):
        rank = measure(matmul(2)).rank
    assert (rank.lower.value, rank.lower.method) == (7, "toy")


def test_it_is_skipped_for_its_cost_or_a_reason_and_silent_without_what_it_needs():
    def skipped(**options):
        with registered_bound(toy(**options)):
            rank = measure(sample("astrid"), budget=1.0).rank
        assert not any(bound.method == "toy" for bound in rank.tried)
        return [skip.reason for skip in rank.skipped if skip.method == "toy"]

    assert "would take about 50.0 s" in skipped(cost=lambda _: 50.0)[0]
    assert skipped(refusals=(lambda _: "", lambda _: "too odd", lambda _: "never asked")) == ["too odd"]
    assert skipped(needs=(lambda bracket: len(bracket.tensor) > 100,), refusals=(lambda _: "too odd",)) == []


def test_what_holds_instead_is_given_where_there_is_no_time():
    with registered_bound(toy(cost=lambda _: inf, instead=lambda _: [Bound(2, "counted")])):
        rank = measure(sample("astrid"), budget=1.0).rank
    assert (2, "counted") in [(bound.value, bound.method) for bound in rank.tried]
    assert "toy" in [skip.method for skip in rank.skipped]


def test_a_false_bound_is_reported_as_a_defect():
    for false in (toy(6, stage=Stage.PROVE), toy(4, side="upper")):
        with registered_bound(false), pytest.raises(ArithmeticError, match="cross"):
            measure(sample("astrid"))


def test_what_proves_nothing_is_no_upper_bound():
    no_witness = toy(side="upper", run=lambda _: [Bound(5, "toy")])
    sum_over_components = toy(of="effective rank", side="upper", run=lambda bracket: [facts_bound(bracket.core)])
    wrong_side = toy(run=lambda bracket: [UpperBound("toy", np.array([5]), lambda: None)])
    for unfounded in (no_witness, sum_over_components, wrong_side):
        with registered_bound(unfounded), pytest.raises(TypeError, match="is not a valid"):
            measure(sample("astrid"))


def test_a_witness_that_is_not_of_the_table_does_not_multiply_out():
    other = Core.of(ZeroOneTensor.of(matmul(2)))
    with registered_bound(toy(side="upper", run=lambda _: [Bound(5, "toy", witness=facts_bound(other).decomposition)])):
        tried = measure(sample("astrid")).rank.tried
    (false,) = [bound for bound in tried if bound.method == "toy"]
    assert not false.witness().equals(ZeroOneTensor.of(sample("astrid")))


def test_names_are_taken_once():
    again = pytest.raises(InputError, match="another name")
    with registered_bound(toy()), registered_bound(toy(of="effective rank")), again:
        register_bound(toy(run=lambda _: []))
    with pytest.raises(InputError, match="expected a BoundMethod; got str"):
        BOUNDS.register("toy", "toy")
    for of in RANKS:
        names = [method.name for method in methods(of)]
        assert len(names) == len(set(names))


def test_every_module_that_declares_bounds_is_found():
    folder = Path(bounds_package.__file__).parent
    declaring = {
        f"{path.parent.name}.{path.stem}"
        for path in folder.glob("*er/*.py")
        if any(line.startswith("METHODS = ") for line in path.read_text(encoding="utf-8").splitlines())
    }
    assert declaring == set(MODULES)


def several():
    """Several values per fiber; no axis is determined."""
    facts = [("a", "x", v) for v in "uv"] + [("a", "y", v) for v in "vw"] + [("b", "x", "u"), ("b", "y", "u")]
    return Database.from_facts(facts, multi=True)


def hindrance(method, bracket):
    """None if it does not apply, else why it is not run, "" if nothing stands against it."""
    if not all(need(bracket) for need in method.needs):
        return None
    return next((reason for refusal in method.refusals if (reason := refusal(bracket))), "")


def test_what_is_declared_decides_what_runs(monkeypatch):
    """Without a budget that runs which applies, is not refused and costs nothing; each bound is seen to apply."""
    monkeypatch.setattr("factrank.tensors.bounds.ledger.PER_FACT", 1.0)
    applied, left_out = set(), set()
    for table in (sample("astrid"), several(), matmul(2)):
        core = Core.of(ZeroOneTensor.of(table))
        for of in RANKS:
            inherited = None if of == "rank" else Bound(9, "larger rank", witness=lambda: None)
            bracket = Bracket(of, core, Ledger(0.0, lambda _: None), inherited)
            for method in methods(of):
                against = hindrance(method, bracket)
                cost = method.cost(bracket) if method.cost and against == "" else None
                (left_out if against is None else applied).add((of, method.name))
                noted = len(bracket.ledger.skipped)
                found = findings(method, bracket)
                assert (method.name in bracket.ledger.seconds) == (cost == 0.0)
                if against or cost:
                    assert bracket.ledger.skipped[noted].method == method.name
                    assert list(map(type, found)) == list(map(type, method.instead(bracket) if cost else ()))
                for finding in found:
                    bracket = bracket.joined(finding, method.side)
    every = {(of, method.name): method for of in RANKS for method in methods(of)}
    assert applied == set(every)
    always_met = {"U5", "B3", "B2", "CP", "full", "pairs"}
    assert {name for name, method in every.items() if method.needs and method.code not in always_met} <= left_out
