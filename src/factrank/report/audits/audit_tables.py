"""Tables of an audit: the model, its layers and its conventions, or the updates of an adapter."""

from __future__ import annotations

from itertools import islice
from statistics import median

from factrank.auditing import (
    CHECK_TOLERANCE,
    AuditedUpdate,
    CheckedLayer,
    FactsInWeights,
    ForwardCheck,
    LayerAudit,
    LoraAudit,
    ModelAudit,
    SkipTrigram,
    Spectrum,
)
from factrank.foreign_text import shown_name
from factrank.report.display import Description, Kind, PlainTable, Words, described, plain_table

MOST_LAYERS, MOST_UPDATES, MOST_HEADS, MOST_FACTS = 128, 40, 30, 20


def describe_audit(found: ModelAudit | LoraAudit) -> Description:
    """Describe an audit: sizes, the circuits of each layer, parameters by part, and conventions."""
    return _model(found) if isinstance(found, ModelAudit) else _lora(found)


def describe_facts(found: FactsInWeights) -> Description:
    """Describe the facts in the weights: entries and copying scores of heads, and the recall of a table."""
    parts: list[Words | PlainTable] = []
    if found.heads:
        table = plain_table(
            ("head", "word"), ("copying", "number"), ("copied", "number"), ("strongest entries", "text")
        )
        for head in sorted(found.heads, key=lambda each: -each.copying)[:MOST_HEADS]:
            table.add_row(
                f"{head.layer}.{head.head}", f"{head.copying:.2f}", f"{head.copied:.1%}", _entries(head.entries[:2])
            )
        words = f"Facts in the weights: {found.n_tokens:,} tokens through one layer at a time, most copying heads first"
        parts += [Words(words, "title"), table]
        if len(found.heads) > MOST_HEADS:
            parts.append(Words(f"... and {len(found.heads) - MOST_HEADS:,} more heads", option="; --json has all"))
    if found.direct is not None:
        some = [f"{shown_name(each.query)} -> {shown_name(each.value)}" for each in found.direct.entries[:4]]
        words = f"copied {found.direct.copied:.1%}; strongest entries {', '.join(some)}"
        parts.append(Words(words, lead="direct path"))
    if found.recalls:
        parts += [*_recall_parts(found), _facts_by_head(found)]
    return described(*parts)


def describe_recall(found: FactsInWeights) -> Description:
    """Describe the recall of a table by layers and heads, without its facts."""
    return described(*_recall_parts(found))


def _recall_parts(found: FactsInWeights) -> list[Words | PlainTable]:
    table = plain_table(
        ("layer", "number"),
        ("whole path", "number"),
        ("direct", "number"),
        ("best head", "text"),
        ("its QK", "number"),
        ("its OV", "number"),
        ("facts at most", "number"),
    )
    for recall in found.recalls[:MOST_LAYERS]:
        best = max(range(len(recall.heads)), key=lambda head: recall.heads[head])
        circuits = recall.circuits[best]
        table.add_row(
            f"{recall.layer}",
            f"{recall.whole:.1%}",
            f"{recall.direct:.1%}",
            f"{best} ({recall.heads[best]:.1%})",
            *(f"{each.effective_rank:.1f} of {each.rank}" for each in (circuits.qk, circuits.ov)),
            f"{recall.most_facts:,}",
        )
    some, n_facts = sum(bool(row["heads"]) for row in found.fact_rows()), len(found.recalls[0].right)
    n_heads, n_values = sum(len(recall.heads) for recall in found.recalls), found.table.n_values if found.table else 1
    words = (
        f"{some:,} of {n_facts:,} facts are recalled by some head alone. By chance {1 / n_values:.1%} of the facts are "
        f"recalled, and each fact by {n_heads / n_values:,.1f} of {n_heads:,} heads. QK and OV: effective ranks on it"
    )
    return [Words("Recall of the table by the path of each layer", "title"), Words(words), table]


def _facts_by_head(found: FactsInWeights) -> PlainTable:
    """Return the first facts of the table with the heads that recall them."""
    table = plain_table(("fact", "name"), ("heads", "number"), ("first of them", "word"), ("whole paths", "word"))
    for row in islice(found.fact_rows(), MOST_FACTS):
        fact = f"{shown_name(row['key'])}, {shown_name(row['query'])} -> {shown_name(row['value'])}"
        heads = ", ".join(f"{layer}.{head}" for layer, head in row["heads"][:3])
        table.add_row(fact, f"{len(row['heads'])}", heads, ", ".join(map(str, row["whole"][:3])))
    return table


def describe_check(found: ForwardCheck) -> Description:
    """Describe a self-check: the largest differences, and the layers that differ."""
    differing = [layer for layer in found.layers if not layer.agrees]
    n_layers = f"{len(found.layers):,} layer{'s' if len(found.layers) > 1 else ''}"
    verdict = f"all {n_layers} agree" if found.agrees else f"{len(differing):,} of {n_layers} differ"
    table = plain_table(("layer", "number"), ("norm", "number"), ("scores", "number"), ("outputs", "number"))
    for layer in differing[:MOST_LAYERS]:
        table.add_row(f"{layer.layer}", *_differences(layer))
    largest = CheckedLayer(
        -1,
        max((layer.norm for layer in found.layers if layer.norm is not None), default=None),
        max(layer.scores for layer in found.layers),
        max(layer.outputs for layer in found.layers),
    )
    norm, scores, outputs = _differences(largest)
    words = (
        f"largest relative differences: norm {norm}, scores {scores}, outputs {outputs} (allowed: {CHECK_TOLERANCE:g})"
    )
    title = Words(f"Check against a forward pass of {found.made_by}, {found.n_tokens} tokens: {verdict}", "title")
    return described(title, Words(words), Words(), table) if differing else described(title, Words(words))


def _differences(layer: CheckedLayer) -> tuple[str, str, str]:
    return "" if layer.norm is None else f"{layer.norm:.1e}", f"{layer.scores:.1e}", f"{layer.outputs:.1e}"


def _entries(entries: tuple[SkipTrigram, ...]) -> str:
    return ", ".join(
        f"{shown_name(each.key)} ... {shown_name(each.query)} -> {shown_name(each.value)}" for each in entries
    )


def _model(found: ModelAudit) -> Description:
    sizes = found.sizes
    shared = f", {sizes.n_kv_heads} key and value heads" if sizes.group_size > 1 else ""
    words = (
        f"{found.architecture}: {sizes.n_layers} layers of {sizes.n_heads} heads{shared}, width {sizes.width}, "
        f"d_qk {sizes.d_qk}, d_vo {sizes.d_vo}"
    )
    below = (
        f"QK has the smaller effective rank in {found.qk_below_ov:.0%} of {len(found.heads):,} heads; medians: QK "
        f"{found.qk_effective:.1f}, OV {found.ov_effective:.1f}"
    )
    return described(
        Words(shown_name(found.title, None), "title"),
        Words(words),
        Words(below),
        Words(),
        _layers(found),
        Words(),
        _parameters(found),
        Words(),
        *(Words(text, lead=lead) for lead, text in _conventions(found)),
    )


def _layers(found: ModelAudit) -> PlainTable:
    by_distance: list[tuple[str, Kind]] = [("by distance", "word")] if found.heads[0].distances else []
    table = plain_table(
        ("layer", "number"),
        ("QK rank", "number"),
        ("effective", "number"),
        ("stable", "number"),
        *by_distance,
        ("OV rank", "number"),
        ("effective", "number"),
        ("stable", "number"),
        ("QK < OV", "number"),
    )
    for layer in found.layers[:MOST_LAYERS]:
        table.add_row(
            f"{layer.layer}",
            *_circuit([head.qk for head in layer.heads]),
            *([_by_distance(layer)] if by_distance else []),
            *_circuit([head.ov for head in layer.heads]),
            f"{layer.qk_below_ov:.0%}",
        )
    return table


def _circuit(spectra: list[Spectrum]) -> tuple[str, str, str]:
    """Return the range of ranks, and the medians of effective and stable rank over the heads."""
    ranks = [each.rank for each in spectra]
    least, most = min(ranks), max(ranks)
    return (
        f"{least}" if least == most else f"{least}-{most}",
        f"{median(each.effective_rank for each in spectra):.1f}",
        f"{median(each.stable_rank for each in spectra):.1f}",
    )


def _by_distance(layer: LayerAudit) -> str:
    """Return the least and largest median effective rank of QK over the distances."""
    columns = zip(*([at.effective_rank for at in head.distances] for head in layer.heads), strict=True)
    medians = [median(column) for column in columns]
    return f"{min(medians):.1f}-{max(medians):.1f}"


def _parameters(found: ModelAudit) -> PlainTable:
    table = plain_table(("parameters", "word"), ("", "number"), ("of all", "number"))
    whole = found.parameters["all"]
    for part, count in found.parameters.items():
        if count:
            table.add_row(part, f"{count:,}", f"{count / whole:.1%}")
    return table


def _conventions(found: ModelAudit) -> list[tuple[str, str]]:
    first = found.heads[0].qk
    above = "what rounding to the stored type may have changed (first order)"
    if first.decided == "chosen":
        above = f"{first.tolerance / first.largest if first.largest else 0:.1e} of the largest"
    effective = "exp of the entropy of the singular values over their sum; medians over the heads"
    lines = [
        ("rank", f"singular values above {above}"),
        ("effective", effective),
        ("stable", "squared Frobenius norm over squared spectral norm; medians"),
        *(("circuits", text) for text in dict.fromkeys(layer.convention for layer in found.layers)),
    ]
    facts = [found.facts_of(layer) for layer in found.layers]
    if found.n_values is not None:
        layers = f"a layer's attention {max(each or 0 for each in facts):,}"
        if len(facts) > 1:
            layers += f", that of all {len(facts)} layers {found.most_facts:,}"
        values = f"of nearly every table with {found.n_values:,} values that the other weights do not depend on"
        lines.append(("facts at most", f"{layers}, by information, {values}"))
    return lines[:8]


def _lora(found: LoraAudit) -> Description:
    updates = found.updates
    full = sum(update.spectrum.rank == update.allowed for update in updates)
    last: list[tuple[str, Kind]] = [("facts at most", "number")] if found.n_values is not None else []
    table = plain_table(
        ("update", "name"),
        ("r", "number"),
        ("rank", "number"),
        ("effective", "number"),
        ("stable", "number"),
        ("parameters", "number"),
        *last,
    )
    for update in updates[:MOST_UPDATES]:
        table.add_row(*_update(found, update))
    more = len(updates) - MOST_UPDATES
    values = f" of nearly every table with {found.n_values:,} values" if found.n_values is not None else ""
    parameters = sum(update.parameters for update in updates)
    effective = median(update.spectrum.effective_rank for update in updates)
    return described(
        Words(shown_name(found.title, None), "title"),
        Words(f"LoRA: {len(updates):,} updates, {full:,} of full rank; {parameters:,} parameters"),
        Words(f"median effective rank {effective:.1f}"),
        Words(),
        table,
        *([Words(f"... and {more:,} more updates", option="; --json has all")] if more > 0 else []),
        Words(),
        Words("singular values above what rounding to the stored type may have changed", lead="rank"),
        *(
            [Words(f"by information,{values}, that the other weights do not depend on", lead="facts at most")]
            if values
            else []
        ),
    )


def _update(found: LoraAudit, update: AuditedUpdate) -> list[str]:
    facts = found.facts_of(update)
    return [
        shown_name(update.name, None),
        f"{update.allowed}",
        f"{update.spectrum.rank}",
        f"{update.spectrum.effective_rank:.1f}",
        f"{update.spectrum.stable_rank:.1f}",
        f"{update.parameters:,}",
        *([] if facts is None else [f"{facts:,}"]),
    ]
