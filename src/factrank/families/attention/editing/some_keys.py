"""Parts of a layer: some of its keys alone, with their facts.

The logits of a key need its own row, the rows of the queries, the heads and the unembedding. So what is asked of a few
keys is answered by a small layer. It is for looking at what an edit did; certificates of edited layers are of the whole
(see `certify`), because what a file says of the facts that were not touched is no proof.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int

from factrank.databases import Database
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.nn import to_arrays


def of_keys(layer: Any, database: Database, keys: Int[np.ndarray, " some"]) -> tuple[AttentionLayer, Database]:
    """The layer and the facts of these keys alone."""
    rows = np.concatenate([keys, np.arange(layer.n_keys, layer.n_keys + layer.n_queries)])
    some: Any = to_arrays(layer)["embedding"][rows]
    starts, ends = np.searchsorted(database.triples[:, 0], [keys, keys + 1])
    kept = np.concatenate([np.arange(start, end) for start, end in zip(starts, ends, strict=True)])
    triples = database.triples[kept].copy()
    triples[:, 0] = np.repeat(np.arange(len(keys)), ends - starts)
    part = Database(triples, database.keys.take(keys), database.queries, database.values)
    return replace(layer, embedding=some, n_keys=len(keys)), part
