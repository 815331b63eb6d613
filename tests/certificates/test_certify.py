"""`certify` on planted provers: no family, just margins, bounds and what must not be certified."""

import json
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from factrank import (
    FactualRecallShape,
    Given,
    MemoryShape,
    VectorExamples,
    construct,
    construct_factual_recall,
    construct_memory,
    generated,
    sample,
)
from factrank.certificates.arithmetic import ARITHMETIC
from factrank.certificates.blocks import RowBlock, row_blocks
from factrank.certificates.certificate import certificate_from_json
from factrank.certificates.certification import MarginBounds, Prover, certify
from factrank.databases.database import Database
from factrank.databases.generators import answer_sets, associations
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.families.factual_recall.factual_recall_transformer import FactualRecallTransformer
from factrank.families.memory.associative_memory import LinearMemory

FACTS = Database.from_facts([(f"k{at}", "q", f"v{at}") for at in range(5)])
MARGINS = (3.0, 2.0, 1.0, 4.0, 5.0)


@dataclass(frozen=True, eq=False)
class Planted(Prover):
    """A prover that is told its margins and bounds."""

    model: object
    data: Database = FACTS
    margins: tuple[float, ...] = MARGINS
    bounds: tuple[float, ...] = tuple(margin - 0.5 for margin in MARGINS)
    exact: tuple[bool, ...] = (False,) * 5
    stopped: str = ""
    left_out: int = -1
    fixed = ("size",)
    forward_cells = bound_cells = 1

    def forward_blocks(self):
        return [block for block in row_blocks(5, 2**21) if self.left_out not in block.rows]

    def forward(self, block):
        return np.array(self.margins)[block.rows]

    def obstacle(self):
        return self.stopped

    def bound(self, block):
        return MarginBounds(np.array(self.bounds)[block.rows], all(np.array(self.exact)[block.rows]))

    def details(self, proof, recall):
        return {"size": 7, "share": recall}


def planted(**options):
    return certify(Planted({"w": np.ones(3, np.float32)}, **options))


def test_what_is_recalled_and_proved_is_certified():
    found = planted()
    assert (found.certified, found.reason, found.facts, found.recalled) == (True, "", 5, 5)
    assert (found.margin, found.proved_margin, found.worst) == (1.0, 0.5, ("k2", "q", "v2"))
    assert (found.arithmetic, found.precision, found["size"]) == ("running error bound", "float32", 7)
    assert found.database == FACTS.fingerprint


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"margins": (3.0, 0.0, 1.0, 4.0, 5.0), "bounds": (0.0,) * 5},
            "are not recalled; the margins of 5",
        ),
        ({"margins": (3.0, np.nan, 1.0, 4.0, 5.0)}, "1 of 5 facts are not recalled"),
        ({"bounds": (2.0, 1.0, 0.0, 3.0, 4.0)}, "the margins of 1 facts are not proved positive"),
        ({"bounds": (2.0, 1.0, np.nan, 3.0, 4.0)}, "the margins of 1 facts are not proved positive"),
        ({"stopped": "a class of its own"}, "a class of its own"),
        ({"bounds": (2.0, 1.0, 1.1, 3.0, 4.0)}, "1 margins are below their proved bounds"),
        ({"left_out": 4}, "1 of 5 facts are not recalled"),
    ],
)
def test_what_is_wrong_anywhere_is_not_certified(options, reason):
    found = planted(**options)
    assert not found.certified
    assert reason in found.reason


def test_bounds_that_are_no_number_are_none():
    assert planted(bounds=(2.0, 1.0, np.nan, 3.0, 4.0)).proved_margin == -np.inf
    assert planted(stopped="stopped").arithmetic == "none"


def test_the_arithmetic_is_exact_if_every_block_is(monkeypatch):
    monkeypatch.setattr("factrank.certificates.blocks.BLOCK_CELLS", 2)
    assert planted(exact=(True,) * 5).arithmetic == "exact integers"
    assert planted(exact=(True, True, True, True, False)).arithmetic == "running error bound"


def test_one_margin_does_not_stand_for_all(monkeypatch):
    monkeypatch.setattr(Planted, "forward", lambda *_: np.ones(1))
    with pytest.raises(ValueError, match="one margin per row"):
        planted()
    monkeypatch.setattr(Planted, "bound", lambda *_: MarginBounds(np.ones(1)))
    with pytest.raises(ValueError, match="one margin per row"):
        planted()


def test_described_data_are_built(monkeypatch):
    spec = generated("associations", n_inputs=4, n_outputs=4, kind="injective", seed=0)
    model = construct_memory(spec.build(), MemoryShape(d_model=8), form="two-sided").model
    assert verify(model, spec) == verify(model, spec.build())
    with pytest.raises(InputError, match="a fingerprint only identifies them"):
        verify(model, Given(spec.build().fingerprint))
    with pytest.raises(InputError, match="reads facts; got VectorExamples"):
        verify(model, VectorExamples.of(np.ones((1, 2)), np.ones((1, 2)), np.ones(1)))


def test_blocks_cover_every_row_once():
    for n_rows, cells, step in ((0, 1, 1), (1, 2**30, 1), (7, 2**20, 1), (130, 2**30, 64)):
        blocks = list(row_blocks(n_rows, cells, step))
        assert np.concatenate([block.rows for block in blocks] or [np.empty(0)]).tolist() == list(range(n_rows))
        assert len({len(block.padded) for block in blocks}) <= 1
        assert all(set(block.padded) == set(block.rows) for block in blocks)
    assert len(next(row_blocks(130, 2**30, 64)).padded) == 64
    assert isinstance(next(row_blocks(1, 1)), RowBlock)


def test_certificates_are_read_back_and_compared():
    found = planted()
    stored = certificate_from_json(found.to_json(), found)
    assert stored == found
    assert found.differences(stored) == ()
    assert found.differences(replace(stored, details={"size": 8, "share": 0.5})) == ("size",)
    with pytest.raises(InputError, match="size in the certificate"):
        certificate_from_json(replace(found, details={"size": 0.5, "share": 1.0}).to_json(), found)
    with pytest.raises(InputError, match="exactly the fields"):
        certificate_from_json(replace(found, details={"size": 7}).to_json(), found)
    with pytest.raises(KeyError, match="no detail 'leak'; the details are size, share"):
        found["leak"]


def test_a_model_of_no_family_is_refused():
    with pytest.raises(InputError, match="expected a model of the families attention, memory"):
        verify({"w": np.ones(3)}, FACTS)


class TurnedMemory(LinearMemory):
    """A memory whose forward pass is not that of its weights."""

    def read(self, inputs):
        return 0.5 * super().read(inputs)


class TurnedTransformer(FactualRecallTransformer):
    """A transformer whose forward pass is not that of its weights."""

    def logits(self, counts, reader=None):
        return 0.5 * super().logits(counts, reader)


def test_subclasses_with_a_forward_pass_of_their_own_are_refused():
    made = construct_memory(associations(4, 4, kind="injective", seed=0), MemoryShape(d_model=8), form="two-sided")
    found = verify(TurnedMemory(**vars(made.model)), made.data)
    assert (made.certified, found.certified, found.recalled) == (True, False, 4)
    assert "no proof is known for a memory of the class TurnedMemory" in found.reason
    facts = answer_sets(3, 2, 2, seed=0)
    recalling = construct_factual_recall(facts, FactualRecallShape(16, 1, 1, 4, length=6))
    turned = verify(TurnedTransformer(**vars(recalling.model)), facts, length=6)
    assert (recalling.certified, turned.certified, turned.recalled) == (True, False, 6)
    assert "no proof is known for a model of the class TurnedTransformer" in turned.reason


def test_answers_that_are_no_number_are_not_recalled():
    facts = answer_sets(3, 2, 2, seed=0)
    model = construct_factual_recall(facts, FactualRecallShape(16, 1, 1, 4, length=6)).model
    found = verify(replace(model, w_v=np.full_like(model.w_v, np.nan)), facts, length=6)
    assert (found.recalled, found.margin, found.certified) == (0, -np.inf, False)


def test_a_margin_that_is_no_number_is_the_worst():
    found = planted(margins=(3.0, 2.0, 1.0, np.nan, 5.0))
    assert (found.certified, found.recalled, found.worst) == (False, 4, ("k3", "q", "v3"))
    assert np.isnan(found.margin)


def test_facts_with_one_margin_are_compared_with_the_least_of_their_bounds():
    """The margin of a pair with two values is that of the worse one: the bound of the better one refutes nothing."""

    class Together(Planted):
        def least_together(self, bounds):
            return np.full_like(bounds, bounds.min())

    model, margins, bounds = {"w": np.ones(3, np.float32)}, (1.0,) * 5, (0.5, 2.0, 2.0, 2.0, 2.0)
    assert not certify(Planted(model, margins=margins, bounds=bounds)).certified
    assert certify(Together(model, margins=margins, bounds=bounds)).certified


def test_sums_of_sizes_up_to_the_limit_are_exact():
    """In float64 the sizes are themselves summed with up to 2^30 roundings of 2^-53."""
    assert [ARITHMETIC[name].exact for name in ("bfloat16", "float32")] == [2**8, 2**24]
    assert Fraction(ARITHMETIC["float64"].exact) / (1 - Fraction(1, 2**23)) <= 2**53


def test_a_certificate_of_version_0_1_is_read():
    """It called hallucinations artifacts; both names at once are of no version."""
    certificate = construct(sample("astrid"), only="parabola").certificate
    old = certificate.to_dict()
    old["artifacts"] = old.pop("hallucinations")
    assert certificate_from_json(json.dumps(old), certificate) == certificate
    stored = json.dumps(old | {"artifacts": certificate["hallucinations"] + 1})
    assert certificate_from_json(stored, certificate)["hallucinations"] == certificate["hallucinations"] + 1
    with pytest.raises(InputError, match="invalid hallucinations in the certificate"):
        certificate_from_json(json.dumps(old | {"artifacts": "many"}), certificate)
