"""`factrank ask`: one question to a layer, and what its answer is worth."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console

from factrank.cli.recall import Layer, Tau
from factrank.databases import Vocabulary
from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.models import SavedLayer
    from factrank.report.answers import Answer

MOST_VALUES = 5
"""How many of the most probable values are shown."""

MOST_COMPARED = 100_000
"""Names among which close ones are looked for; a second at this size."""


def ask(
    layer: Layer,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The name of a key.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The name of a query.")],
    tau: Tau = 0.95,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Ask a layer for the value of a (key, query), and judge the answer by the facts it was trained on.

    It is a fact, an error, or an artifact: an answer where the database says nothing.
    """
    from factrank.models import load_layer  # noqa: PLC0415 - JAX takes a second to load
    from factrank.readouts.readout import require_threshold  # noqa: PLC0415
    from factrank.report.answers import answer_tables  # noqa: PLC0415
    from factrank.report.plain import json_text  # noqa: PLC0415

    require_threshold(tau)
    answer = answer_of(load_layer(layer), key, query, tau)
    if json:
        typer.echo(json_text(answer.to_dict()))
    else:
        Console(highlight=False).print(answer_tables(answer))


def answer_of(saved: SavedLayer, key: str, query: str, tau: float) -> Answer:
    """What a layer answers to a (key, query), judged by the database it was saved with."""
    from factrank.models import verdict  # noqa: PLC0415 - JAX takes a second to load
    from factrank.readouts import attribute, logits_at, softmax_at  # noqa: PLC0415
    from factrank.readouts.parts import has_parts  # noqa: PLC0415
    from factrank.report.answers import Answer  # noqa: PLC0415

    keys, queries, values = saved.database.vocabularies
    at = _code("key", key, keys, "query", queries), _code("query", query, queries, "key", keys)
    pair = np.array([at[0]], dtype=np.int32), np.array([at[1]], dtype=np.int32)
    logits, probabilities = logits_at(saved.layer, *pair)[0], softmax_at(saved.layer, *pair)[0]
    if not np.isfinite(probabilities).all():
        raise InputError("the logits of the layer at this (key, query) are not numbers, as after a diverged training")
    order = np.argsort(-logits, kind="stable")[:MOST_VALUES]
    found, runner_up = int(order[0]), int(order[1]) if len(order) > 1 else None
    margin = float("inf") if runner_up is None else float(logits[found] - logits[runner_up])
    judged, facts = verdict(saved, *at, found), saved.database.fiber(key, query)
    if judged == "fact" and margin == 0 and runner_up is not None and values[runner_up] not in facts:
        judged = "error"
    paths = attribute(saved.layer, *at, found) if has_parts(saved.layer) else None
    return Answer(
        key=key,
        query=query,
        answer=values[found],
        probability=float(probabilities[found]),
        margin=margin,
        competitor=None if runner_up is None else values[runner_up],
        tau=tau,
        verdict=judged,
        facts=facts,
        top=tuple((values[int(value)], float(probabilities[value])) for value in order),
        direct=None if paths is None else paths.direct,
        heads=None if paths is None else paths.heads,
    )


def _code(kind: str, name: str, vocabulary: Vocabulary, other_kind: str, other: Vocabulary) -> int:
    """The code of a name, or an error with the names that are close to it."""
    if name in vocabulary:
        return vocabulary.index(name)
    if name in other:
        raise InputError(f"{name!r} is a {other_kind} of this layer, not a {kind}: the order is KEY QUERY")
    known = {known.casefold(): known for known in vocabulary[:MOST_COMPARED]}
    close = [known[match] for match in get_close_matches(name.casefold(), known, n=3, cutoff=0.6)]
    names = close or list(vocabulary[:3])
    shown = ", ".join(repr(known if len(known) <= 60 else f"{known[:57]}...") for known in names)
    hint = f"did you mean {shown}?" if close else f"it knows {len(vocabulary):,}, such as {shown}"
    raise InputError(f"{name!r} is not a {kind} that this layer knows; {hint}")
