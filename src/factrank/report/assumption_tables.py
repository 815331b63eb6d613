"""Findings on the assumptions of the memorisation theorem, as tables and as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from factrank.families.memoriser.ranks import (
    AssumptionVerdict,
    CheckedAssumptions,
    Indices,
    KruskalRank,
    SubsetSample,
    in_words,
)
from factrank.foreign_text import shown_name
from factrank.report.display import Description, PlainTable, Tone, Words, described, plain_table

TONES: dict[AssumptionVerdict, Tone] = {"proved": "good", "not refuted": "good", "fails": "bad", "not tested": "plain"}
MOST_SHOWN = 8


def assumptions_table(title: str, found: CheckedAssumptions) -> Description:
    """Describe the verdict and evidence for each assumption, then for properties beyond the assumptions."""
    queries = found.queries
    parts: list[Words | PlainTable] = [Words(shown_name(title, None), "title"), Words(_sizes(found)), Words()]
    table = plain_table(("assumed", "word"), ("verdict", "word"), ("found", "text"))
    n = found.context_size
    size = f"{n} < {queries.dimension}" if found.size_verdict == "proved" else f"{n} >= {queries.dimension}"
    rows = (
        ("n < d", found.size_verdict, size),
        ("any n queries independent", found.queries_verdict, _queries(found)),
        ("every context has rank n", found.contexts_verdict, _contexts(found)),
    )
    for name, verdict, evidence in rows:
        if verdict != "not tested":
            table.add_row(name, verdict, evidence, tone=TONES[verdict])
    if n is not None:
        parts += [table, Words()]
    beyond = plain_table(("beyond", "word"), ("verdict", "word"), ("found", "text"))
    rank = str(queries.upper) if queries.exact else f"{queries.lower} to {queries.upper}"
    beyond.add_row("Kruskal rank of the queries", rank, _kruskal(queries))
    beyond.add_row("queries in general position", in_words(queries.general_position), _position(queries))
    if found.tokens is not None:
        tokens = found.tokens
        evidence = f"dependent: {_listed(tokens.witness)}" if tokens.witness is not None else _drawn(tokens.sample)
        beyond.add_row("tokens in general position", in_words(tokens.holds), evidence)
    parts.append(beyond)
    return described(*parts)


def plain_assumptions(title: str, found: CheckedAssumptions) -> dict[str, Any]:
    """Return the findings as data for JSON."""
    sample = found.at_context_size
    return {
        "title": title,
        "refuted": found.refuted,
        "proved": found.proved,
        "verdicts": {
            "size": found.size_verdict,
            "queries": found.queries_verdict,
            "contexts": found.contexts_verdict,
            "queries_in_general_position": in_words(found.queries.general_position),
            "tokens_in_general_position": "not tested" if found.tokens is None else in_words(found.tokens.holds),
        },
        **asdict(found),
        "independent_share": None if sample is None else sample.independent_share,
        "dependent_share_below": None if sample is None else sample.share_below,
    }


def _sizes(found: CheckedAssumptions) -> str:
    queries = found.queries
    contexts = f", {found.n_contexts:,} contexts of n = {found.context_size} tokens" if found.n_contexts else ""
    return (
        f"{queries.n_vectors:,} queries{contexts}, d = {queries.dimension}; "
        f"unit vectors count as dependent if the least singular value is <= {queries.tolerance:.1e}"
    )


def _queries(found: CheckedAssumptions) -> str:
    queries, sample = found.queries, found.at_context_size
    if sample is None:
        return f"there are only {queries.n_vectors} queries"
    if found.queries_verdict == "proved":
        return f"Kruskal rank {queries.upper}, every subset tried"
    if found.queries_verdict == "not refuted":
        return _drawn(sample)
    fraction = f"{sample.independent_share:.1%} of {sample.subsets:,} random {sample.size}-subsets independent"
    return f"dependent: {_listed(queries.witness)}; {fraction}"


def _contexts(found: CheckedAssumptions) -> str:
    full = f"{found.full_contexts:,} of {found.n_contexts:,} have rank {found.context_size}"
    if found.failing_context is None:
        return full
    return f"{full}; least rank {found.least_context_rank}; first rank-deficient context: {found.failing_context}"


def _kruskal(queries: KruskalRank) -> str:
    if queries.exact:
        return "every subset tried" if queries.witness is None else f"dependent: {_listed(queries.witness)}"
    return _drawn(queries.sample)


def _position(queries: KruskalRank) -> str:
    if queries.general_position is None:
        return _drawn(queries.sample)
    if queries.general_position:
        return "every subset tried"
    if queries.upper == queries.rank:
        return f"the rank of all {queries.n_vectors:,} queries is {queries.rank}"
    return f"dependent: {_listed(queries.witness)}"


def _drawn(sample: SubsetSample | None) -> str:
    if sample is None:
        return "every subset tried"
    return (
        f"{sample.subsets:,} random {sample.size}-subsets, all independent: at {sample.confidence:.0%} confidence "
        f"fewer than {sample.share_below:.2%} of all are dependent"
    )


def _listed(witness: Indices | None) -> str:
    """List the indices of vectors, counted from 0; only the first few if there are many."""
    if witness is None:
        return "more vectors than dimensions"
    shown = ", ".join(map(str, witness[:MOST_SHOWN]))
    return f"{len(witness)} vectors ({shown}{', ...' if len(witness) > MOST_SHOWN else ''})"
