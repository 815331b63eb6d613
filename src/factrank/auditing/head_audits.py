"""The circuits of one attention layer: QK and OV of each head and of each group of heads that shares keys and values.

The stack of the QK circuits of a group has the rank of a single head at most, because the heads share their keys; the
same holds for OV and the shared values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import floor, log2
from statistics import median
from typing import Any

from threadpoolctl import threadpool_limits

from factrank.auditing.circuit_spectra import ReducedFactor, Spectrum, reduced, spectrum, stack
from factrank.checkpoints.heads import AttentionFactors, AttentionModel
from factrank.errors import InputError
from factrank.planning import EXCLUDED_BITS

DISTANCES = (0, 1, 4, 16, 64, 256, 1024, 4096)
"""Distances between query and key at which rotated circuits are measured."""
LEADING = 8
"""Singular values in a row of the table."""


@dataclass(frozen=True)
class AtDistance:
    """QK of a head for keys that many tokens before the query."""

    distance: int
    rank: int
    effective_rank: float
    stable_rank: float


@dataclass(frozen=True)
class HeadCircuits:
    """QK and OV of a head, or of a group of heads.

    Arguments:
        layer: Number of the layer, from 0.
        head: Number of the head, or of the group.
        kv_head: Number of the key and value head.
        qk: Spectrum of QK; at distance 0 if positions are rotary.
        ov: Spectrum of OV.
        distances: QK at each distance, for rotary positions.
    """

    layer: int
    head: int
    kv_head: int
    qk: Spectrum
    ov: Spectrum
    distances: tuple[AtDistance, ...] = ()


@dataclass(frozen=True)
class LayerAudit:
    """Circuits of one layer.

    Arguments:
        layer: Number of the layer, from 0.
        heads: Circuits of the heads.
        groups: Circuits of the groups that share keys and values; empty if no heads do.
        parameters: Stored scalars of attention by part.
        bits: Bits of the stored weights of attention.
        convention: What exactly the circuits are.
    """

    layer: int
    heads: tuple[HeadCircuits, ...]
    groups: tuple[HeadCircuits, ...]
    parameters: dict[str, int]
    bits: float
    convention: str

    @property
    def qk_effective(self) -> float:
        """Median entropy effective rank of QK over the heads."""
        return median(head.qk.effective_rank for head in self.heads)

    @property
    def ov_effective(self) -> float:
        """Median entropy effective rank of OV over the heads."""
        return median(head.ov.effective_rank for head in self.heads)

    @property
    def qk_below_ov(self) -> float:
        """Fraction of heads whose QK has the smaller effective rank."""
        return sum(head.qk.effective_rank < head.ov.effective_rank for head in self.heads) / len(self.heads)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per circuit of a head or group, each with its convention."""
        return [
            row
            for level, members in (("head", self.heads), ("group", self.groups))
            for member in members
            for row in _rows(member, level, self.convention)
        ]


def audit_layer(model: AttentionModel, layer: int, *, fold: bool = False, tolerance: float | None = None) -> LayerAudit:
    """Audit one layer.

    Arguments:
        model: Checkpoint.
        layer: Number of the layer, from 0.
        fold: Whether to fold the norms into the circuits.
        tolerance: Fraction of the largest singular value that counts as zero; by default, rounding decides.
    """
    factors = model.layer(layer, fold=fold)
    longest = model.settings.entries.get("max_position_embeddings")
    distances = [t for t in DISTANCES if t == 0 or type(longest) is not int or t < longest] if factors.rotation else []
    measure = partial(_circuits, model.place, factors, distances, tolerance)
    size = factors.group_size
    with threadpool_limits(1, "blas"):  # threads only slow small matrices down
        queries, keys, values = reduced(factors.query), reduced(factors.key), reduced(factors.value)
        outputs = reduced(factors.output.T)  # W_O^T is tall
        heads = tuple(
            measure(head, head // size, queries[head], keys[head // size], values[head // size], outputs[head])
            for head in range(factors.n_heads)
        )
        groups = tuple(
            measure(g, g, stack(queries[g * size :][:size]), keys[g], values[g], stack(outputs[g * size :][:size]))
            for g in range(len(keys) if size > 1 else 0)
        )
    words = convention(factors, fold=fold)
    return LayerAudit(layer, heads, groups, _parameters(model, layer), attention_bits(model, layer), words)


def attention_bits(model: AttentionModel, layer: int) -> float:
    """Return the bits of the stored weights and biases of a layer's attention."""
    names = model.attention_names(layer)
    biases = [model.optional(f"{name.removesuffix('.weight')}.bias") for name in names]
    stored = [*(model.tensor(name) for name in names), *(bias for bias in biases if bias is not None)]
    return sum(tensor.size * tensor.bits for tensor in stored)


def most_facts(bits: float | int, n_values: int) -> int:
    """Return the most facts that weights with that many bits hold, of nearly every table with that many values.

    >>> most_facts(1000, 2)
    1020
    """
    return floor((bits + EXCLUDED_BITS) / log2(n_values)) if n_values > 1 else 0


def convention(factors: AttentionFactors, *, fold: bool) -> str:
    """Return what exactly the circuits of a layer are, in words."""
    parts = [
        f"QK = {factors.scale:.4g} W_Q W_K^T" + (" at distance 0" if factors.rotation else ""),
        "OV = W_V W_O",
        "norms folded" if fold else "norms not folded",
        *(["biases as one more input dimension"] if factors.has_bias else []),
        f"weights stored as {', '.join(factors.kinds)}",
        *factors.notes,
    ]
    return "; ".join(parts)


def _circuits(
    place: str,
    factors: AttentionFactors,
    distances: Sequence[int],
    tolerance: float | None,
    head: int,
    kv_head: int,
    *parts: ReducedFactor,
) -> HeadCircuits:
    """Measure the circuits of the reduced W_Q, W_K, W_V and W_O^T."""
    query, key, value, output = parts
    try:
        turned = [
            spectrum(query, key, factors.rotation, distance, scale=factors.scale, tolerance=tolerance)
            for distance in distances
        ]
        qk = turned[0] if turned else spectrum(query, key, scale=factors.scale, tolerance=tolerance)
        ov = spectrum(value, output, tolerance=tolerance)
    except InputError as error:
        raise InputError(f"{place}: layer {factors.layer}, head {head}: {error}") from None
    by_distance = (
        AtDistance(distance, found.rank, found.effective_rank, found.stable_rank)
        for distance, found in zip(distances, turned, strict=True)
    )
    return HeadCircuits(factors.layer, head, kv_head, qk, ov, tuple(by_distance))


def _parameters(model: AttentionModel, layer: int) -> dict[str, int]:
    """Return the stored scalars of attention by part."""
    sizes, names = model.sizes, model.attention_names(layer)
    output = model.tensor(names[-1]).size
    inner = [model.tensor(name).size for name in names[:-1]]
    if model.layout.latent:
        return {"latent projections": sum(inner), "output": output}
    rows = (sizes.n_heads * sizes.d_qk, sizes.n_kv_heads * sizes.d_qk, sizes.n_kv_heads * sizes.d_vo)
    query, key, value = inner if len(inner) == 3 else [sizes.width * n for n in rows]
    return {"queries": query, "keys": key, "values": value, "output": output}


def _rows(member: HeadCircuits, level: str, words: str) -> list[dict[str, Any]]:
    rows = []
    for name, found in (("QK", member.qk), ("OV", member.ov)):
        row = {
            "layer": member.layer,
            level: member.head,
            "kv_head": member.kv_head,
            "level": level,
            "circuit": name,
            "rank": found.rank,
            "tolerance": found.tolerance,
            "decided": found.decided,
            "effective_rank": found.effective_rank,
            "energy_rank": found.energy_rank,
            "stable_rank": found.stable_rank,
            "singular_values": list(found.values[:LEADING]),
            "convention": words,
        }
        if name == "QK" and member.distances:
            row["distances"] = [vars(at) for at in member.distances]
        rows.append(row)
    return rows
