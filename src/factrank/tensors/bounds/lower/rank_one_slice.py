r"""B3 with rank-one slices: a lower bound that can exceed the border rank, such as 3 for the W state.

Substitution (Alexeev, Forbes and Tsimerman, arXiv 1102.0072). Let slices $T_s = a \otimes b_s$, s in S, of one axis
share the vector a, and let k = dim span($b_s$). Any decomposition of T has k terms that can be solved for k independent
slices of S and removed, which subtracts combinations of these slices from the others. So for some numbers $\lambda$

rank T $\ge$ k + rank$(T_i - \sum_s \lambda_{is}\, a \otimes b_s)_{i \notin S}$   (with equality if S is one slice).

The remainder is bounded for *every* $\lambda$ in one of two ways. Let Pa = 0 and $b_s^T P_B = 0$ for all s.

- Peel: $(P T_i)_i$ does not depend on $\lambda$, so rank T $\ge$ k + rank$(P T_i)_i$, and the argument can be repeated
  for that tensor.
- Pencil: with $N = [T_2 | T_3 | ...]$ and $N_B = [T_2 P_B | T_3 P_B | ...]$, i outside S, the least rank of
  $N - a w^T$, $w_i = \sum_s \lambda_{is} b_s$, is exactly

  rank[N | a] + rank $N_B$ - rank[$N_B$ | a].

  Proof. By Wedderburn's rank reduction, $N - a w^T$ has rank (rank N) - 1 iff a = N x, w = $N^T y$ and $y^T N x =
  y^T a = 1$, and never less. A w of this form is $N^T y$ iff $y^T T_i$ is in span($b_s$) for all i, that is
  $y^T N_B = 0$; some such y has $y^T a \ne 0$ iff a is not in col($N_B$). As col($N_B$) is contained in col(N), the
  least rank is rank N - [a in col N] + [a in col $N_B$], which is the formula. QED

A bound is a chain of peels followed by a pencil or a flattening. Each step only removes slices of a single connected
component, so the chains of all components add up: the removed slices of a component $D_1$, and their multiples that are
subtracted elsewhere, vanish outside the rows and columns of $D_1$ and leave every other component unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound, ShownWitness
from factrank.tensors.bounds.lower.flattenings import flattening_ranks
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import gap_beyond_flattenings
from factrank.tensors.core import AXES, AXIS_NAMES, Core, ZeroOneTensor, flattening
from factrank.tensors.matrix import rational_rank

LARGEST_SIDE, MOST_CELLS = 60, 30_000
"""Components with a longer side or more cells contribute their flattening ranks only."""

MOST_COMPONENTS = 16
"""Chains are searched for on this many components, those with the most facts."""

MOST_GROUPS, PATIENCE = 24, 2
"""Groups of slices tried at each step of the search, which continues while it is at most PATIENCE behind its best."""

LARGEST_ENTRY = 2**30
"""Steps with larger entries are not taken, because products of two entries must fit into 64 bits."""

Cube = Int[np.ndarray, "_ _ _"]
Ranker = Callable[[Int[np.ndarray, "rows columns"]], int]


@dataclass(frozen=True)
class SliceGroup:
    """All rank-one slices of `axis` that share the vector a, along the axis `along`, of the slice with this index."""

    axis: int
    along: int
    index: int

    @property
    def order(self) -> tuple[int, int, int]:
        """The axes in the order (slices, a, b)."""
        return self.axis, self.along, 3 - self.axis - self.along


@dataclass(frozen=True)
class Chain:
    """A sequence of peels, then a pencil or a flattening. Groups refer to the tensor left by the previous peels."""

    peels: tuple[SliceGroup, ...] = ()
    pencil: SliceGroup | None = None

    def bound(self, cube: Cube) -> int:
        """Returns the bound that this chain proves, from exact ranks."""
        total = 0
        for group in self.peels:
            gained, cube = _peel(cube, group)
            total += gained
        return total + (
            _pencil(cube, self.pencil, rational_rank) if self.pencil else max(_flattenings(cube, rational_rank))
        )


@dataclass(frozen=True, eq=False, repr=False)
class RankOneSlice(ShownWitness):
    """A certified lower bound: a chain on some components, the flattening of an axis on the others.

    It is its own witness: `recompute` repeats it from the tensor alone.
    """

    value: int
    flat_axis: Int[np.ndarray, " components"]
    chains: Mapping[int, Chain]

    @property
    def groups(self) -> tuple[SliceGroup, ...]:
        """The first group of slices substituted on each component that has a chain."""
        return tuple(filter(None, ((*chain.peels, chain.pencil)[0] for chain in self.chains.values())))

    @property
    def method(self) -> str:
        """Label of the method."""
        names = [AXIS_NAMES[axis] for axis in AXES if any(group.axis == axis for group in self.groups)]
        return f"B3 rank-one slice of {' and '.join(names)}" if names else "B3 flattenings, no rank-one slice of use"

    def recompute(self, tensor: ZeroOneTensor) -> int:
        """Returns the bound from the tensor, by exact rational ranks."""
        core, total = Core.of(tensor), 0
        for component, axis in enumerate(self.flat_axis.tolist()):
            part, chain = core.part(component), self.chains.get(component)
            total += chain.bound(part.dense()) if chain else rational_rank(flattening(part, axis).toarray())
        return total


def rank_one_slice_bound(core: Core) -> RankOneSlice:
    """Returns the sum over all components of the best chain found, or of the largest flattening rank."""
    flat = np.array([flattening_ranks(core, axis)[0] for axis in AXES])
    best, sizes = flat.max(axis=0, initial=0), np.bincount(core.fact_component, minlength=core.n_components)
    chains, total = dict[int, Chain](), int(best.sum())
    worth_a_look = np.flatnonzero(sizes > best)
    for component in worth_a_look[np.argsort(-sizes[worth_a_look], kind="stable")][:MOST_COMPONENTS].tolist():
        part = core.part(component)
        if max(part.shape) <= LARGEST_SIDE and np.prod(part.shape) <= MOST_CELLS:
            chain = _search(part.dense())
            gained = chain.bound(part.dense()) - int(best[component])
            if gained > 0:
                chains[component] = chain
                total += gained
    return RankOneSlice(total, flat.argmax(axis=0), chains)


# -------------------------------------------------------------------- search, by numerical ranks; proved afterwards


def _search(cube: Cube) -> Chain:
    """Peels greedily, keeping the flattening ranks large, and tries the pencil of every group on the way."""
    best, value, total, peels = Chain(), max(_flattenings(cube, _likely_rank)), 0, tuple[SliceGroup, ...]()
    best_value = value
    while value >= best_value - PATIENCE:
        steps = []
        for group in _groups(cube):
            try:
                ended, (gained, rest) = total + _pencil(cube, group, _likely_rank), _peel(cube, group)
            except OverflowError:
                continue
            if ended > best_value:
                best, best_value = Chain(peels, group), ended
            ranks = _flattenings(rest, _likely_rank)
            steps.append((total + gained + max(ranks), sum(ranks), total + gained, rest, group))
        if not steps:
            break
        value, _, total, cube, group = max(steps, key=lambda step: step[:2])
        peels = (*peels, group)
        if value > best_value:
            best, best_value = Chain(peels), value
    return best


def _groups(cube: Cube) -> Iterator[SliceGroup]:
    """Yields the groups of rank-one slices, each named by its first slice; large groups first."""
    found = []
    for axis in AXES:
        for along in AXES:
            if along != axis:
                vectors = _shared_vectors(cube.transpose(SliceGroup(axis, along, 0).order))
                kinds, first, sizes = np.unique(vectors, axis=0, return_index=True, return_counts=True)
                nonzero = kinds.any(axis=1)
                pairs = zip(first[nonzero].tolist(), sizes[nonzero].tolist(), strict=True)
                found += [(-size, SliceGroup(axis, along, index)) for index, size in pairs]
    yield from (group for _, group in sorted(found, key=lambda entry: entry[0])[:MOST_GROUPS])


def _likely_rank(matrix: Int[np.ndarray, "rows columns"]) -> int:
    """Numerical rank, from the Gram matrix of the shorter side: fast, and only used to choose."""
    real: Float[np.ndarray, "short long"] = (matrix if len(matrix) <= matrix.shape[1] else matrix.T).astype(np.float64)
    return int(np.linalg.matrix_rank(real @ real.T, hermitian=True)) if matrix.size else 0


# -------------------------------------------------------------------- peel and pencil, in exact arithmetic


def _flattenings(cube: Cube, rank: Ranker) -> list[int]:
    return [rank(np.moveaxis(cube, axis, 0).reshape(cube.shape[axis], -1)) if cube.size else 0 for axis in AXES]


def _peel(cube: Cube, group: SliceGroup) -> tuple[int, Cube]:
    """Returns k, and the other slices with a projected away (axes in their original order)."""
    a, bs, rest = _split(cube.transpose(group.order), group.index)
    return rational_rank(bs), _project(rest, a, 1).transpose(np.argsort(group.order))


def _pencil(cube: Cube, group: SliceGroup, rank: Ranker) -> int:
    """Returns k + rank[N | a] + rank N_B - rank[N_B | a]."""
    a, bs, rest = _split(cube.transpose(group.order), group.index)
    projected, k = rest, 0
    while bs.any():
        b = bs[bs.any(axis=1)][0]
        projected, bs, k = _project(projected, b, 2), _project(bs[None], b, 2)[0], k + 1
    whole, reduced = (np.moveaxis(view, 1, 0).reshape(len(a), -1) for view in (rest, projected))
    return k + rank(np.column_stack([whole, a])) + rank(reduced) - rank(np.column_stack([reduced, a]))


def _split(view: Cube, index: int) -> tuple[Int[np.ndarray, " b"], Int[np.ndarray, "s c"], Int[np.ndarray, "r b c"]]:
    """Returns a, a multiple of b_s for every slice of the group, and the other slices."""
    vectors = _shared_vectors(view)
    a = vectors[index]
    if not a.any():
        raise ValueError(f"slice {index} does not have rank one")
    members = (vectors == a).all(axis=1)
    return a, view[members][:, int(np.flatnonzero(a)[0])], view[~members]


def _shared_vectors(view: Cube) -> Int[np.ndarray, "a b"]:
    """Returns the primitive vector a, first entry positive, of each slice a (x) b of rank one; else zeros."""
    if not view.size:
        return np.zeros(view.shape[:2], dtype=np.int64)
    everyone = np.arange(len(view))
    row, column = np.divmod((view != 0).reshape(len(view), -1).argmax(axis=1), view.shape[2])
    a, b, pivot = view[everyone, :, column], view[everyone, row], view[everyone, row, column]
    rank_one = (view * pivot[:, None, None] == a[:, :, None] * b[:, None, :]).all(axis=(1, 2)) & (pivot != 0)
    divisor = np.gcd.reduce(a, axis=1) * np.sign(pivot)
    return np.where(rank_one[:, None], a // np.where(rank_one, divisor, 1)[:, None], 0)


def _project(cube: Cube, vector: Int[np.ndarray, " n"], axis: int) -> Cube:
    """Applies, along one axis, a matrix P of full row rank whose kernel is spanned by the vector.

    Row j of P is (v_p e_j - v_j e_p) / gcd; the pivot p has no row.
    """
    rows = np.moveaxis(cube, axis, 0)
    pivot = int(np.argmin(np.where(vector == 0, np.iinfo(np.int64).max, np.abs(vector))))
    divisor = np.gcd(vector, vector[pivot])
    times, minus = (x.reshape(-1, 1, 1) for x in (vector[pivot] // divisor, vector // divisor))
    largest = int(np.abs(rows).max(initial=0)) * (int(np.abs(times).max()) + int(np.abs(minus).max()))
    if largest > LARGEST_ENTRY:
        raise OverflowError(f"projecting would produce entries up to {largest}, above the limit of {LARGEST_ENTRY}")
    return np.moveaxis(np.delete(rows * times - minus * rows[pivot], pivot, axis=0), 0, axis)


def _small_components(bracket: Bracket) -> int:
    n_components = bracket.core.n_components
    sides = [np.bincount(labels, minlength=n_components).astype(np.float64) for labels in bracket.core.component]
    return int((np.prod(sides, axis=0) <= MOST_CELLS).sum())


def _too_large(bracket: Bracket) -> str:
    return "" if _small_components(bracket) else "no component is small enough"


def _expected_seconds(bracket: Bracket) -> float:
    return 0.05 + 0.5 * min(_small_components(bracket), MOST_COMPONENTS)


METHODS = (
    BoundMethod(
        name="B3 rank-one slices",
        of="rank",
        side="lower",
        stage=Stage.PROVE,
        needs=(gap_beyond_flattenings,),
        refusals=(_too_large,),
        cost=_expected_seconds,
        run=lambda bracket: [Bound.by(rank_one_slice_bound(bracket.core))],
        expensive=True,
    ),
)
