"""The core of a tensor: rank-preserving moves, checked on dense arrays."""

import numpy as np
from hypothesis import given

from factrank.tensors.core.zero_one import AXES, Core, flattening, others, stacked_slices
from strategies import dense_flattening_rank, dense_rank, tensors


@given(tensors())
def test_core_expands_back_to_the_tensor(tensor):
    core = Core.of(tensor)
    padded = np.zeros([size + 1 for size in core.tensor.shape], dtype=np.int64)
    padded[:-1, :-1, :-1] = core.tensor.dense()
    assert np.array_equal(padded[np.ix_(*core.classes)], tensor.dense())


@given(tensors())
def test_core_has_no_empty_and_no_equal_slices(tensor):
    dense = Core.of(tensor).tensor.dense()
    for axis in AXES:
        slices = {piece.tobytes() for piece in np.moveaxis(dense, axis, 0)}
        assert len(slices) == dense.shape[axis]
        assert all(piece.any() for piece in np.moveaxis(dense, axis, 0))


@given(tensors())
def test_components_share_nothing_and_are_connected(tensor):
    core = Core.of(tensor)
    facts = [tuple(zip("kqv", fact, strict=True)) for fact in core.tensor.coordinates.tolist()]
    reached = {}
    for fact, component in zip(facts, core.fact_component.tolist(), strict=True):
        for name in fact:
            assert reached.setdefault(name, component) == component
    groups = [{name for fact in facts for name in fact if reached[name] == c} for c in range(core.n_components)]
    for group in groups:
        seen, open_names = set(), {min(group)}
        while open_names:
            seen |= open_names
            open_names = {name for fact in facts if seen & set(fact) for name in fact} - seen
        assert seen == group


@given(tensors())
def test_parts_add_up_to_the_core(tensor):
    core = Core.of(tensor)
    parts = [core.part(component) for component in range(core.n_components)]
    assert sum(len(part) for part in parts) == len(core.tensor)
    for axis in AXES:
        assert sum(part.shape[axis] for part in parts) == core.tensor.shape[axis]
        assert sum(dense_flattening_rank(part, axis) for part in parts) == dense_flattening_rank(tensor, axis)


@given(tensors())
def test_flattening_and_stacked_slices_have_the_dense_ranks(tensor):
    for axis in AXES:
        assert dense_rank(flattening(tensor, axis).toarray()) == dense_flattening_rank(tensor, axis)
        by_slice = sum(dense_rank(piece) for piece in np.moveaxis(tensor.dense(), axis, 0))
        assert dense_rank(stacked_slices(tensor, axis).matrix.toarray()) == by_slice


@given(tensors())
def test_determined_axes_have_at_most_one_entry_per_fiber(tensor):
    for axis in AXES:
        assert tensor.determined[axis] == bool((tensor.dense().sum(axis=axis) <= 1).all())
        assert axis not in others(axis)
