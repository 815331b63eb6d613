"""Trained: what the law of the atlas expects of trained layers, and which sizes are needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from factrank.families.attention import LayerShape
from factrank.planning.atlas import MAIN_RANGES, PLANNED_LOADS
from factrank.planning.law import LAW_KINDS, USUAL_EPOCHS, atlas_law, search_sizes
from factrank.planning.table_sizes import TableSizes

HEADS = (1, 2, 4, 8, 16)
NARROWEST, WIDEST = 3, 2**20
"""Widths that are planned: no search found width 2 to be enough, and the law expects too much of it."""

NEARLY_ALL = 0.99
"""Expected recall that counts as all facts: the law never expects exactly 1."""

DECIMALS = 3
"""Expected recalls that agree to this many decimals are equal: of such layers, the smallest is the best."""

MEASURED_PRODUCTS = 2**22
"""Products per epoch of the largest layers whose training was timed; larger ones get no time."""

CPU_SECONDS_PER_PRODUCT, CPU_START = 5e-10, 8.0
"""One layer on one thread, fused engine: seconds per product of an epoch (4e-10 to 8e-10 for 15,000 to 2 million
products), and seconds to compile if nothing is cached."""

GPU_SECONDS_PER_PRODUCT, GPU_LEAST_EPOCH, GPU_START = 4.2e-12, 4.1e-5, 5.0
"""On an H200: seconds per product of an epoch in the atlas, of the shortest epoch of one layer, and to start."""


@dataclass(frozen=True)
class TrainedLayer:
    """A planned layer: its expected recall with an interval, and how long it trains.

    Arguments:
        shape: its sizes.
        parameters: all of them, embeddings included.
        recall: expected fraction of the facts.
        recall_low, recall_high: 90 % interval of the recall; None if the atlas has no layers like it.
        all_facts: fraction of the layers of the atlas with such an expected recall that recalled every fact.
        needed: 90 % interval of the parameters that the requested recall needs with this number of heads; None if no
            searches were like it.
        seconds_on_cpu, seconds_on_gpu: on one thread and on an H200, compilation included; None if such large layers
            were not timed.
        epochs: of the training.
        beyond: in which quantities the layer is outside the atlas; empty if it is inside.
    """

    shape: LayerShape
    parameters: int
    recall: float
    recall_low: float | None
    recall_high: float | None
    all_facts: float | None
    needed: tuple[int, int] | None
    seconds_on_cpu: float | None
    seconds_on_gpu: float | None
    epochs: int = USUAL_EPOCHS
    beyond: str = ""


def planned_shape(d_model: int, n_heads: int) -> LayerShape:
    """Return the split that stored most in the atlas: d_qk 2, and heads that together write 1.5 times d_model."""
    return LayerShape(d_model, n_heads, 2, max(1, (3 * d_model + n_heads) // (2 * n_heads)))


def columns(table: TableSizes, shapes: Sequence[LayerShape], epochs: int = USUAL_EPOCHS) -> dict[str, Any]:
    """Return layers for one table as the law reads them."""
    n = len(shapes)
    same = {
        "bits": table.bits,
        "n_keys": table.n_keys,
        "n_queries": table.n_queries,
        "n_values": table.n_values,
        "epochs": epochs,
    }
    return {
        **{name: np.full(n, float(number)) for name, number in same.items()},
        "kind": np.full(n, LAW_KINDS.index(table.kind)),
        "parameters": np.array([float(shape.parameters(*table.shape)) for shape in shapes]),
        "n_heads": np.array([float(shape.n_heads) for shape in shapes]),
        "d_vo": np.array([float(shape.d_vo) for shape in shapes]),
    }


def expected_recall(table: TableSizes, shape: LayerShape) -> float:
    """Return the recall that the law expects."""
    return float(atlas_law().law.recall(columns(table, [shape]))[0])


def rank_of(layer: TrainedLayer) -> tuple[float, int]:
    """Return a key that sorts the best layer first: highest expected recall, then fewest parameters."""
    return -round(layer.recall, DECIMALS), layer.parameters


def described(table: TableSizes, shape: LayerShape, recall: float) -> TrainedLayer:
    """Return what is expected of a layer."""
    expected, beyond = expected_recall(table, shape), beyond_atlas(table, shape)
    low = high = full = None
    if not beyond:
        group, calibration = _group(table, shape), atlas_law().calibration
        low, high = (float(end[0]) for end in calibration.interval(group, np.array([expected])))
        full = float(calibration.full_fraction(group, np.array([expected]))[0])
    needed = needed_parameters(table, shape.n_heads, recall)
    on_cpu, on_gpu = _seconds(products(table, shape))
    return TrainedLayer(
        shape=shape,
        parameters=shape.parameters(*table.shape),
        recall=expected,
        recall_low=low,
        recall_high=high,
        all_facts=full,
        needed=None if needed is None else (needed[0], needed[2]),
        seconds_on_cpu=on_cpu,
        seconds_on_gpu=on_gpu,
        beyond=beyond,
    )


def needed_parameters(table: TableSizes, n_heads: int, recall: float) -> tuple[int, int, int] | None:
    """Return the lower end, middle and upper end of the parameters that a recall needs.

    None if no searches were like it, or if the formula is below the narrowest planned layer: no layer has that few.
    """
    ends, least = _needed_ends(table, n_heads, recall), planned_shape(NARROWEST, n_heads).parameters(*table.shape)
    if ends is None or ends[1] < least:
        return None
    return max(ends[0], least), ends[1], ends[2]


def smallest_planned(table: TableSizes, n_heads: int, recall: float) -> LayerShape | None:
    """Return the narrowest planned layer with this number of heads that is expected to be enough; None if none is.

    Inside the range of the searches, this is the upper end of the needed parameters; elsewhere in the atlas the lower
    end of the interval of the recall; beyond the atlas the expected recall.
    """
    known, ends, wanted = atlas_law(), _needed_ends(table, n_heads, recall), min(recall, NEARLY_ALL)

    def is_enough(d_model: int) -> bool:
        shape = planned_shape(d_model, n_heads)
        if ends is not None:
            return shape.parameters(*table.shape) >= ends[2]
        expected = known.law.recall(columns(table, [shape]))
        if beyond_atlas(table, shape):
            return bool(expected[0] >= wanted)
        group, calibration = _group(table, shape), known.calibration
        return bool(calibration.is_point(group, expected)[0] or calibration.interval(group, expected)[0][0] >= recall)

    return _narrowest(is_enough, n_heads)


def best_within(table: TableSizes, n_heads: int, parameters: int) -> LayerShape | None:
    """Return the planned layer of highest expected recall with at most this many parameters; None if there is none.

    Of layers with the same expected recall, to three decimals, it is the smallest.
    """
    low, high = NARROWEST - 1, NARROWEST
    while high <= WIDEST and planned_shape(high, n_heads).parameters(*table.shape) <= parameters:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        fits = planned_shape(middle, n_heads).parameters(*table.shape) <= parameters
        low, high = (middle, high) if fits else (low, middle)
    if low < NARROWEST:
        return None
    most = round(expected_recall(table, planned_shape(low, n_heads)), DECIMALS)
    return _narrowest(
        lambda width: round(expected_recall(table, planned_shape(width, n_heads)), DECIMALS) >= most, n_heads
    )


def beyond_atlas(table: TableSizes, shape: LayerShape) -> str:
    """Return in which quantities a layer is outside the atlas, in words; an empty string if it is inside."""
    sizes = {
        "n_keys": table.n_keys,
        "n_queries": table.n_queries,
        "n_values": table.n_values,
        "n_facts": table.n_facts,
        "n_heads": shape.n_heads,
        "d_model": shape.d_model,
        "bits per parameter": table.bits / shape.parameters(*table.shape),
        "facts x values": table.n_facts * table.n_values,
        "products per epoch": products(table, shape),
    }
    return atlas_law().known[table.kind].beyond(sizes)


def products(table: TableSizes, shape: LayerShape) -> int:
    """Return about how many multiplications an epoch takes, forward."""
    tokens, out = table.n_keys + table.n_queries, shape.n_heads * shape.d_vo * table.n_values
    tables = out * (shape.d_model + tokens) + table.n_queries * shape.d_model * table.n_values
    projections = tokens * shape.d_model * shape.n_heads * (2 * shape.d_qk + shape.d_vo)
    return projections + tables + table.n_facts * shape.n_heads * (shape.d_qk + table.n_values)


def _narrowest(is_enough: Callable[[int], bool], n_heads: int) -> LayerShape | None:
    """Return the narrowest planned layer that is enough, by doubling and bisection; None if none is."""
    low, high = NARROWEST - 1, NARROWEST
    while not is_enough(high):
        low, high = high, 2 * high
        if high > WIDEST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return planned_shape(high, n_heads)


def _needed_ends(table: TableSizes, n_heads: int, recall: float) -> tuple[int, int, int] | None:
    """Return the ends and middle of the formula of needed parameters; None if no searches were like this."""
    known, layers = atlas_law(), columns(table, [planned_shape(NARROWEST, n_heads)])
    formula, searches = known.needed.get(recall), known.known.get(f"searches, {table.kind}")
    if formula is None or searches is None:
        return None
    if searches.beyond({name: float(column[0]) for name, column in search_sizes(layers).items()}):
        return None
    low, middle, high = (int(end[0]) for end in formula.parameters(known.law, layers))
    return None if table.bits / middle < PLANNED_LOADS[1] else (low, middle, high)  # wider than was searched


def _group(table: TableSizes, shape: LayerShape) -> str:
    """Return whose intervals apply: true facts, planned layers, or all layers of the kind of table."""
    if table.is_real:
        return "real"
    is_larger = table.n_keys > MAIN_RANGES.inputs[1] or table.n_queries > MAIN_RANGES.queries[1]
    is_larger |= table.n_facts * table.n_values > MAIN_RANGES.cells
    if shape.n_heads > 1 and shape == planned_shape(shape.d_model, shape.n_heads):
        return "planned larger" if is_larger else "planned"
    return "larger" if is_larger else table.kind


def _seconds(n_products: int) -> tuple[float | None, float | None]:
    if n_products > MEASURED_PRODUCTS:
        return None, None
    on_gpu = GPU_START + USUAL_EPOCHS * max(GPU_LEAST_EPOCH, n_products * GPU_SECONDS_PER_PRODUCT)
    return CPU_START + USUAL_EPOCHS * n_products * CPU_SECONDS_PER_PRODUCT, on_gpu
