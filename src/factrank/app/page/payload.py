"""The payload of the explorer: everything that the page shows, as plain data for JSON.

Facts are codes, and arrays are base64 of little-endian numbers (`coded`), so that a layer takes little more room than
its weights. The forward pass, recall, margins and hallucinations are computed by the page itself.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Shaped

from factrank.certificates import Certificate, fingerprint_of
from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.attention import folded_parts
from factrank.readouts import DEFAULT_TAU, require_match, require_threshold
from factrank.tensors import Measurement

VERSION = 1
MOST_PAIRS = 5_000_000
"""Limit of the (key, query) pairs of a layer, because the page keeps numbers for each."""


def explorer_payload(
    database: Database | None,
    layer: Any = None,
    measurement: Measurement | None = None,
    certificate: Certificate | None = None,
    *,
    title: str = "",
    tau: float = DEFAULT_TAU,
    gallery: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the data of an explorer page.

    Arguments:
        database: The facts, in the codes of the layer; None for a page without a table.
        layer: An `AttentionLayer`, or a `PairTransformer` whose tensor is a sum of paths (one layer, no layer norm, no
            MLP).
        measurement: Certified bounds on the ranks of the facts.
        certificate: Proof of recall for exactly these weights and facts.
        title: Name of the table or layer.
        tau: Initial threshold of confident answers.
        gallery: Published reproductions (`gallery_payload`).

    Raises:
        InputError: If the layer does not match the facts or has no paths, or the certificate is for other weights or
            facts.

    >>> from factrank import construct, sample
    >>> made = construct(sample("astrid"))
    >>> payload = explorer_payload(made.data, made.model, certificate=made.certificate, title="astrid")
    >>> payload["layer"]["parts"]["embedding"]["shape"], payload["certificate"]["certified"]
    ([8, 4], True)
    """
    require_threshold(tau)
    if database is None and (layer is not None or measurement is not None):
        raise InputError("a layer or a measurement needs its database")
    if certificate is not None:
        _require_certified(certificate, database, layer)
    return {
        "version": VERSION,
        "title": title,
        "tau": tau,
        "database": None if database is None else _plain_database(database),
        "measurement": None if measurement is None else _plain_measurement(measurement),
        "layer": None if database is None or layer is None else _plain_layer(layer, database),
        "certificate": None if certificate is None else certificate.to_dict(),
        "gallery": gallery,
    }


def coded(array: Shaped[np.ndarray, "..."]) -> dict[str, Any]:
    """Return an array as its type, shape and base64 bytes; bfloat16 becomes float32.

    >>> coded(np.array([[1.0, 2.0]], np.float32))
    {'dtype': 'float32', 'shape': [1, 2], 'data': 'AACAPwAAAEA='}
    """
    kind = {"float64": "<f8", "int32": "<i4"}.get(array.dtype.name, "<f4")
    plain = np.ascontiguousarray(array, dtype=kind)
    return {
        "dtype": plain.dtype.name,
        "shape": list(array.shape),
        "data": base64.b64encode(plain.tobytes()).decode("ascii"),
    }


def coded_parts(layer: Any) -> dict[str, Any]:
    """Return the weights of a layer as coded arrays, with positions and shared rows folded into the embedding.

    Raises:
        InputError: If this is no attention layer, or its tensor is not a sum of paths.
    """
    return {name: coded(part) for name, part in folded_parts(layer).items()}


def _plain_layer(layer: Any, database: Database) -> dict[str, Any]:
    parts = coded_parts(layer)
    require_match(layer, database)
    n_pairs = database.n_keys * database.n_queries
    if n_pairs > MOST_PAIRS:
        raise InputError(
            f"the page evaluates a layer on every (key, query), at most {MOST_PAIRS:,}; here are {n_pairs:,}: choose "
            "fewer keys or queries (Database.select), or leave out the layer (--no-layer)"
        )
    return {
        "words": layer.shape.in_words(),
        "parameters": layer.parameters,
        "precision": np.asarray(layer.unembedding).dtype.name,
        "attention": getattr(layer.shape, "attention", "softmax"),
        "parts": parts,
    }


def _plain_database(database: Database) -> dict[str, Any]:
    names = (vocabulary.names.to_pylist() for vocabulary in database.vocabularies)
    return {
        **dict(zip(("keys", "queries", "values"), names, strict=True)),
        "facts": coded(database.triples.astype(np.int32)),
        "fingerprint": database.fingerprint,
        "functional": database.functional,
        "full": database.full,
        "bits": database.bits,
    }


def _plain_measurement(measurement: Measurement) -> dict[str, Any]:
    ranks = {
        name: bounds.to_dict() | {"skipped": [asdict(skipped) for skipped in bounds.skipped]}
        for name, bounds in measurement.brackets.items()
    }
    return {"bits": measurement.bits, "bits_by_query": measurement.bits_by_query, "ranks": ranks}


def _require_certified(certificate: Certificate, database: Database | None, layer: Any) -> None:
    """Raise unless the certificate is about this layer and these facts: the page must not show a wrong proof."""
    if database is None or layer is None:
        raise InputError("a certificate needs the layer and the facts that it is about")
    wrong: Sequence[str] = [
        name
        for name, same in (
            ("facts", certificate.database == database.fingerprint),
            ("weights", certificate.weights == fingerprint_of(layer)),
        )
        if not same
    ]
    if wrong:
        raise InputError(f"the certificate is for other {' and '.join(wrong)}; make it again with factrank.verify")
