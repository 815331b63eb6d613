"""Descriptions of a layer's recall, and of the ranks that it gives to held-out facts."""

from __future__ import annotations

from factrank.bridges import Examination
from factrank.families.attention.circuits import Attribution, Diagnosis
from factrank.foreign_text import shown_name
from factrank.readouts import HITS, QueryRecall, RankingMetrics, RankingReport, RecallReport, percent
from factrank.report.constructed_tables import verdict
from factrank.report.display import MOST_ROWS, Description, PlainTable, Words, described, plain_table
from factrank.report.plain_output import number


def recall_tables(diagnosis: Diagnosis, attribution: Attribution | None) -> Description:
    """Describe the recall of a layer overall, by query and by head, then the diagnosis."""
    return described(recall_numbers(diagnosis.recall, attribution), Words(), diagnosis_words(diagnosis))


def recall_numbers(found: RecallReport, attribution: Attribution | None = None) -> Description:
    """Describe the recall of a layer overall, by query and by head."""
    parts: list[Words | PlainTable] = [_overall(found, attribution), Words(), *_by_query(found)]
    if found.attention is not None or attribution is not None:
        parts += [Words(), *_by_path(found, attribution)]
    return described(*parts)


def diagnosis_words(diagnosis: Diagnosis) -> Description:
    """Describe what keeps a layer from recalling more."""
    findings = (Words(finding.text, lead=finding.name) for finding in diagnosis.findings)
    return described(Words(diagnosis.text), *findings)


def examination_tables(found: Examination) -> Description:
    """Describe recall and diagnosis, the rank of the logits, and the certificate."""
    parts: list[Words | Description] = [recall_tables(found.diagnosis, found.attribution), Words()]
    if found.rank_bounds is not None:
        upper = found.rank_bounds.upper
        parts.append(
            Words(f"rank of the logits: at most {upper.value:,} for every layer of this shape ({upper.method})")
        )
    if found.certificate is not None:
        parts.append(verdict(found.certificate))
    return described(*parts)


def ranking_tables(found: RankingReport) -> Description:
    """Describe the ranks of held-out facts: metrics overall and by query, lowest mean reciprocal rank first."""
    numbers = ("facts", "MRR", *(f"Hits@{k}" for k in HITS), "mean rank", "chance")
    table = plain_table(("query", "name"), *((name, "number") for name in numbers))
    table.add_row("all queries", *_ranking_cells(found.metrics))
    worst_first = sorted(found.by_query.items(), key=lambda item: item[1].mrr)
    for query, metrics in worst_first[:MOST_ROWS]:
        table.add_row(shown_name(query), *_ranking_cells(metrics))
    parts: list[Words | PlainTable] = [table]
    if len(worst_first) > MOST_ROWS:
        parts.append(Words(f"... the worst {MOST_ROWS} of {len(worst_first):,} queries", option="; --json has all"))
    judged = "filtered: the other known values of a pair are left out" if found.filtered else "not filtered"
    parts += [Words(), Words(f"{judged}; equal logits share their mean rank; chance: the MRR of a random order")]
    if found.n_unknown:
        parts.append(Words(f"{found.n_unknown:,} more facts were skipped: the layer does not know all of their names"))
    return described(*parts)


def _ranking_cells(found: RankingMetrics) -> tuple[str, ...]:
    hits = (percent(found.hits[k]) for k in HITS)
    return f"{found.n_facts:,}", f"{found.mrr:.3f}", *hits, f"{found.mean_rank:,.1f}", f"{found.chance:.3f}"


def _overall(found: RecallReport, attribution: Attribution | None) -> PlainTable:
    table = plain_table(("", "word"), ("", "number"), ("", "text"))
    sure = f"probability >= {found.tau:g}"
    table.add_row("recall", percent(found.recall), "of the facts have the largest logit")
    table.add_row(f"recall at {found.tau:g}", percent(found.recall_tau), f"of the facts have {sure}")
    table.add_row("least margin", number(found.margin), "logit of the fact minus the largest other")
    table.add_row("median margin", number(found.median_margin), "")
    pairs = f"of {found.silent_fibers:,} (key, query) pairs without a fact have a value with {sure}"
    table.add_row("hallucinations", f"{found.hallucinations:,}", pairs)
    if found.abstentions is not None:
        abstained = f"of {found.silent_fibers:,} (key, query) pairs without a fact have the reserved value"
        table.add_row("abstentions", f"{found.abstentions:,}", abstained)
    if attribution is not None:
        words = "of the facts are wrong on every single path but right in the sum"
        table.add_row("additive", percent(attribution.additive_share), words)
    return table


def _by_query(found: RecallReport) -> list[Words | PlainTable]:
    table = plain_table(
        ("query", "name"),
        ("facts", "number"),
        ("recall", "number"),
        (f"p>={found.tau:g}", "number"),
        ("least margin", "number"),
        ("median", "number"),
    )
    queries = [query for query in found.by_query if query.facts]
    if len(queries) <= MOST_ROWS:
        shown, rest = queries, []
    else:
        shown = sorted(queries, key=_worst_first)[:MOST_ROWS]
        rest = [Words(f"... the worst {MOST_ROWS} of {len(queries):,} queries", option="; --json has all")]
    for query in shown:
        numbers = percent(query.recall), percent(query.recall_tau), number(query.margin), number(query.median_margin)
        table.add_row(shown_name(query.query), f"{query.facts:,}", *numbers)
    return [table, *rest]


def _worst_first(query: QueryRecall) -> tuple[float, float, float]:
    return query.recall, query.recall_tau, query.margin


def _by_path(found: RecallReport, attribution: Attribution | None) -> list[Words | PlainTable]:
    """Describe the attention of each head, and the fraction of facts each path gets right alone."""
    n_heads = (
        len(found.attention) if found.attention is not None else len(attribution.heads_alone if attribution else ())
    )
    table = plain_table(
        ("path", "word"),
        ("right alone", "number"),
        ("weight on key", "number"),
        ("entropy in bits", "number"),
        ("saturated", "number"),
    )
    table.add_row("direct", percent(attribution.direct_alone) if attribution else "-", "", "", "")
    for head in range(min(n_heads, MOST_ROWS)):
        alone = percent(attribution.heads_alone[head]) if attribution else "-"
        cells = ["-", "-", "-"]
        if found.attention is not None:
            statistics = found.attention[head]
            cells = [f"{statistics.weight_on_key:.2f}", f"{statistics.entropy:.2f}", percent(statistics.saturation)]
        table.add_row(f"head {head}", alone, *cells)
    if n_heads <= MOST_ROWS:
        return [table]
    return [table, Words(f"... and {n_heads - MOST_ROWS:,} more heads", option=", which --json shows")]
