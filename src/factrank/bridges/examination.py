"""`examine`: everything that factrank reports about one model and one database, in one object."""

from __future__ import annotations

from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from factrank.bridges.pytorch import from_torch
from factrank.bridges.state_dicts import is_module
from factrank.bridges.transformer_lens import from_transformer_lens
from factrank.certificates import Certificate
from factrank.databases import Database
from factrank.display import Drawn
from factrank.experiments import families
from factrank.experiments.models import verify
from factrank.families.attention import LayerRankBounds, layer_rank_bounds
from factrank.families.attention.circuits import Attribution, Diagnosis, attribute_facts, diagnose, has_parts
from factrank.nn import stored_scalars
from factrank.readouts import DEFAULT_TAU, AnyModel, ReadsFacts, RecallReport, finite_data, percent, with_facts


@dataclass(frozen=True, eq=False, repr=False)
class Examination(Drawn):
    """What a model recalls, hallucinates and provably stores, and which paths do it.

    Arguments:
        model: the model that was examined.
        database: the facts, in the codes of the model.
        diagnosis: recall, and why facts are wrong or weak.
        certificate: proof of recall, or why there is none; None if no registered family has models of this kind.
        rank_bounds: bounds on the rank of the logit tensor from the shape; None if it is not one attention layer
            without norm and MLP.
        attribution: contribution of each path to the margin of every fact; None if the logits are not a sum of paths.
    """

    model: ReadsFacts
    database: Database
    diagnosis: Diagnosis
    certificate: Certificate | None
    rank_bounds: LayerRankBounds | None
    attribution: Attribution | None

    @property
    def recall(self) -> RecallReport:
        """Recall, margins, hallucinations and attention."""
        return self.diagnosis.recall

    @property
    def hallucinations(self) -> int:
        """Number of (key, query) pairs without a fact that have a confident answer."""
        return self.recall.hallucinations

    @property
    def certified(self) -> bool:
        """Whether every fact is proved to be recalled."""
        return self.certificate is not None and self.certificate.certified

    @property
    def parameters(self) -> int:
        """Number of stored scalars."""
        return stored_scalars(self.model)

    def __repr__(self) -> str:
        found, n_facts = self.recall, self.database.n_facts
        at_tau = f"{percent(found.recall_tau)} at {found.tau:g}"
        lines = [
            f"Examination({type(self.model).__name__} of {self.parameters:,} parameters on {n_facts:,} facts)",
            f"  recall {percent(found.recall)}, {at_tau}; least margin {found.margin:.3g}",
            f"  hallucinations {found.hallucinations:,} of {found.silent_fibers:,} (key, query) pairs without a fact",
        ]
        if self.rank_bounds is not None:
            lines.append(f"  rank of the logits at most {self.rank_bounds.upper.value:,}")
        lines += [f"  {finding.name}: {finding.text}" for finding in self.diagnosis.findings]
        return "\n".join([*lines, f"  {self._verdict()}"])

    def _verdict(self) -> str:
        if self.certificate is None:
            return "no certificate: no registered family has models of this kind"
        if self.certified:
            return f"certified: every fact is recalled, by {self.certificate.arithmetic}"
        return f"not certified: {self.certificate.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; infinite numbers and NaN become None."""
        shape, bounds = getattr(self.model, "shape", None), self.rank_bounds
        plain: dict[str, Any] = finite_data(
            {
                "model": type(self.model).__name__,
                "shape": asdict(shape) if is_dataclass(shape) and not isinstance(shape, type) else None,
                "parameters": self.parameters,
                **self.recall.to_dict(),
                "diagnosis": self.diagnosis.to_dict(),
                "certificate": None if self.certificate is None else self.certificate.to_dict(),
                "rank_bounds": None if bounds is None else _plain_bounds(bounds),
                "attribution": None if self.attribution is None else self._plain_attribution(self.attribution),
            }
        )
        return plain

    def _plain_attribution(self, attribution: Attribution) -> dict[str, Any]:
        """Return fractions, and the contributions to every fact by column."""
        names = zip(*self.database, strict=True) if len(self.database) else ((), (), ())
        keys, queries, values = (list(column) for column in names)
        return {
            **attribution.to_dict(),
            "by_fact": {
                "key": keys,
                "query": queries,
                "value": values,
                "margin": attribution.margins.tolist(),
                "direct": attribution.direct.tolist(),
                "heads": attribution.heads.tolist(),
            },
        }


def examine(given: AnyModel, database: Database | None = None, tau: float = DEFAULT_TAU) -> Examination:
    """Examine a model on a database: recall, hallucinations, diagnosis, rank bounds, certificate and attribution.

    Arguments:
        given: a layer or other model that reads facts; a trained, constructed or loaded object that contains one; or a
            PyTorch module that `from_torch` or `from_transformer_lens` converts without further arguments.
        database: the facts; defaults to the facts of `given`.
        tau: the probability above which an answer is confident.

    Raises:
        InputError: there are no facts, they do not match the model, tau is not in (0, 1), or a module cannot be
            converted.

    >>> from factrank import construct, sample
    >>> found = examine(construct(sample("astrid")))
    >>> found.recall.recall, found.certified, found.attribution.heads.shape
    (1.0, True, (8, 1))
    """
    if is_module(given):
        of_lens = hasattr(getattr(given, "cfg", None), "attn_only")
        given = from_transformer_lens(given, database) if of_lens else from_torch(given, database)
    model, facts = with_facts(given, database)
    known = any(family.spec_of(model) is not None for family in families().values())
    paths = model if has_parts(model) else None
    bounded = paths is not None and not getattr(paths.shape, "share_tokens", False)
    return Examination(
        model=model,
        database=facts,
        diagnosis=diagnose(model, facts, tau),
        certificate=verify(model, facts) if known else None,
        rank_bounds=layer_rank_bounds(paths.shape, *facts.shape) if paths is not None and bounded else None,
        attribution=None if paths is None else attribute_facts(paths, facts),
    )


def _plain_bounds(bounds: LayerRankBounds) -> dict[str, Any]:
    return {
        "upper": bounds.upper.value,
        "upper_by": bounds.upper.method,
        "circuit_rank": bounds.circuit_rank,
        "unembedding_rank": bounds.unembedding_rank,
        "attained": bounds.attained,
        "flattenings": asdict(bounds.flattenings),
    }
