"""The sortable tables of an audit's page: heads, updates, strongest entries, the facts of a table, and the check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from factrank.auditing import DirectFacts, FactsInWeights, ForwardCheck, HeadCircuits, HeadFacts, LoraAudit, ModelAudit

MOST_ROWS, MOST_NAMED_HEADS = 5_000, 12
HEAD_COLUMNS = (
    *("layer", "head", "kv head", "level", "QK rank", "QK effective", "QK energy", "QK stable", "QK largest"),
    *("OV rank", "OV effective", "OV energy", "OV stable", "OV largest"),
)
UPDATE_COLUMNS = ("update", "r", "rank", "effective", "energy", "stable", "largest", "parameters", "facts at most")
ENTRY_COLUMNS = ("layer", "head", "copying", "copied", "key", "query", "value", "lead")
DIRECT_COLUMNS = ("query", "value", "lead")
FACT_COLUMNS = ("key", "query", "value", "heads", "recalled by heads", "by whole paths of layers", "by direct paths")
RECALL_COLUMNS = (
    *("layer", "head", "recall", "whole path", "direct", "QK rank", "QK effective", "OV rank", "OV effective"),
    *("facts at most", "rank at most"),
)
CHECK_COLUMNS = ("layer", "agrees", "norm", "scores", "outputs")


@dataclass(frozen=True)
class PageTable:
    """A table of the page.

    Arguments:
        title: Its heading.
        head: Titles of the columns.
        rows: Cells as texts; the page escapes them.
        note: What the reader has to know, in a sentence or two.
    """

    title: str
    head: tuple[str, ...]
    rows: list[list[str]]
    note: str = ""

    @property
    def shown(self) -> list[list[str]]:
        """Rows on the page."""
        return self.rows[:MOST_ROWS]

    @property
    def n_more(self) -> str:
        """Number of rows that are left out; empty if there are none."""
        return f"{len(self.rows) - MOST_ROWS:,}" if len(self.rows) > MOST_ROWS else ""

    @property
    def numbers(self) -> list[bool]:
        """Whether each column has numbers only."""
        columns = zip(*self.shown, strict=True) if self.rows else [() for _ in self.head]
        return [all(_is_number(cell) for cell in column) for column in columns]


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "").removesuffix("%") or "0")
    except ValueError:
        return False
    return True


def page_tables(
    found: ModelAudit | LoraAudit, facts: FactsInWeights | None, check: ForwardCheck | None
) -> list[PageTable]:
    """Return the tables of a page, in their order."""
    tables = []
    if check is not None:
        tables.append(_check_table(check))
    if facts is not None and facts.recalls:
        tables += [_fact_table(facts), _recall_table(facts)]
    if facts is not None and facts.heads:
        tables.append(_entry_table(facts))
    if facts is not None and facts.direct is not None:
        tables.append(_direct_table(facts.direct))
    return [*tables, _head_table(found) if isinstance(found, ModelAudit) else _update_table(found)]


def _head_table(found: ModelAudit) -> PageTable:
    members = [
        (level, member)
        for layer in found.layers
        for level, some in (("head", layer.heads), ("group", layer.groups))
        for member in some
    ]
    return PageTable("Every head", HEAD_COLUMNS, [_head_row(level, member) for level, member in members])


def _head_row(level: str, member: HeadCircuits) -> list[str]:
    cells = [f"{member.layer}", f"{member.head}", f"{member.kv_head}", level]
    for each in (member.qk, member.ov):
        numbers = (each.effective_rank, each.energy_rank, each.stable_rank)
        cells += [f"{each.rank}", *(f"{number:.2f}" for number in numbers), f"{each.largest:.4g}"]
    return cells


def _update_table(found: LoraAudit) -> PageTable:
    rows = []
    for update in found.updates:
        each, facts = update.spectrum, found.facts_of(update)
        numbers = [f"{number:.2f}" for number in (each.effective_rank, each.energy_rank, each.stable_rank)]
        last = [f"{each.largest:.4g}", f"{update.parameters:,}", "" if facts is None else f"{facts:,}"]
        rows.append([update.name, f"{update.allowed}", f"{each.rank}", *numbers, *last])
    return PageTable("Every update", UPDATE_COLUMNS, rows)


def _entry_table(facts: FactsInWeights) -> PageTable:
    rows = [
        [*_of_head(head), entry.key, entry.query, entry.value, f"{entry.lead:.4g}"]
        for head in facts.heads
        for entry in head.entries
    ]
    note = (
        f"Skip trigrams (key ... query -> value) of {facts.n_tokens:,} tokens. Copying: eigenvalue score of the head. "
        "Copied: fraction of tokens that it raises above all others. Lead: logit of the value above the mean."
    )
    return PageTable("Strongest entries of each head", ENTRY_COLUMNS, rows, note)


def _direct_table(direct: DirectFacts) -> PageTable:
    rows = [[entry.query, entry.value, f"{entry.lead:.4g}"] for entry in direct.entries]
    note = (
        "From embedding to unembedding, without attention: query -> value. Of the tokens it raises "
        f"{direct.copied:.1%} above all others."
    )
    return PageTable("Strongest entries of the direct path", DIRECT_COLUMNS, rows, note)


def _of_head(head: HeadFacts) -> list[str]:
    return [f"{head.layer}", f"{head.head}", f"{head.copying:.2f}", f"{head.copied:.1%}"]


def _fact_table(facts: FactsInWeights) -> PageTable:
    rows = []
    for row in facts.fact_rows():
        heads = [f"{layer}.{head}" for layer, head in row["heads"]]
        whole, direct = (", ".join(map(str, row[name])) for name in ("whole", "direct"))
        rows.append([row["key"], row["query"], row["value"], f"{len(heads)}", _some(heads), whole, direct])
    note = "Recalled: the value has the largest logit among the values of the table. Heads are written as layer.head."
    return PageTable("The table, fact by fact", FACT_COLUMNS, rows, note)


def _some(heads: Sequence[str]) -> str:
    more = len(heads) - MOST_NAMED_HEADS
    return ", ".join(heads[:MOST_NAMED_HEADS]) + (f" and {more:,} more" if more > 0 else "")


def _recall_table(facts: FactsInWeights) -> PageTable:
    note = (
        "Recall of the table by each head alone, and by the whole path and the direct path of its layer. Ranks are "
        "those of QK and OV on the tokens of the table. Facts at most: by information. Rank at most: of the path's "
        "tensor, by its sizes."
    )
    return PageTable("Recall by head", RECALL_COLUMNS, list(_recall_rows(facts)), note)


def _recall_rows(facts: FactsInWeights) -> Iterator[list[str]]:
    for recall in facts.recalls:
        for head, (fraction, circuits) in enumerate(zip(recall.heads, recall.circuits, strict=True)):
            ranks = [
                cell for each in (circuits.qk, circuits.ov) for cell in (f"{each.rank}", f"{each.effective_rank:.2f}")
            ]
            whole = (f"{fraction:.1%}", f"{recall.whole:.1%}", f"{recall.direct:.1%}")
            yield [f"{recall.layer}", f"{head}", *whole, *ranks, f"{recall.most_facts:,}", f"{recall.rank_at_most:,}"]


def _check_table(check: ForwardCheck) -> PageTable:
    rows = [
        [f"{layer.layer}", "yes" if layer.agrees else "no"]
        + ["" if number is None else f"{number:.1e}" for number in (layer.norm, layer.scores, layer.outputs)]
        for layer in check.layers
    ]
    note = f"Largest relative differences from one forward pass of {check.made_by} with {check.n_tokens} tokens."
    return PageTable("Check of the factors", CHECK_COLUMNS, rows, note)
