r"""Additive fit: do some queries need attention at all? Not if their logits can be a sum, $L[k,q,v] = G[k,v] + B[q,v]$.

A layer with constant attention has exactly such logits. They recall the facts of a set of queries if and only if G and
B exist with $G[k,f] + B[q,f] > G[k,w] + B[q,w]$ for every value f of (k, q) and every other value w. Only the values
that key k has somewhere among these queries matter: for all others take G[k, w] very low. What is left is a system of
linear inequalities (scaled: by at least 1), decided by linear programming.

Two queries, one value each per key: the key asks for $B[q,f] - B[q',f] > B[q,f'] - B[q',f']$ where $f = f(k,q)$ and
$f' = f(k,q')$ differ, and for nothing else, since G[k, .] is free. Such Delta exists if and only if the digraph on
values with the arcs f -> f' is acyclic; disjoint ranges are a special case. A cycle is a proof that attention is
needed, such as one key with (u, w) and another with (w, u).

Pairwise acyclicity is necessary for more queries but not sufficient. A fit is checked by the margin of the G and B that
were found, and two queries that do not fit show their cycle; that three or more do not, though every two of them do, is
the solver's word. This is an analysis, not a small layer: the G that is found has a high rank.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int
from scipy.optimize import linprog
from scipy.sparse.csgraph import breadth_first_order, connected_components

from factrank.databases import Database
from factrank.errors import InputError

MOST_INEQUALITIES = 200_000
"""The largest linear programme that is tried."""

PROVED = 0.5
"""A margin, recomputed from G and B, that leaves no doubt about rounding; the programme asks for 1."""

FEASIBLE, INFEASIBLE = 0, 2
"""How SciPy says so."""


@dataclass(frozen=True, eq=False)
class AdditiveFit:
    """Whether the facts of some queries fit G[k, v] + B[q, v].

    Arguments:
        fits: True or False; None where the linear programme is too large or undecided.
        queries: their names.
        cycle: values u -> w -> ... that two queries ask for in a circle, where they do not fit.
        between: those two queries.
        margin: the least margin of the G and B that were found, recomputed.
    """

    fits: bool | None
    queries: tuple[str, ...]
    cycle: tuple[str, ...] = ()
    between: tuple[str, str] | None = None
    margin: float | None = None


def additive_fit(database: Database, queries: Iterable[str] | None = None) -> AdditiveFit:
    """Whether these queries (all that have facts, if none are named) need no attention.

    >>> table = [("Ann", "born", "Oslo"), ("Ann", "lives", "Lima"), ("Bob", "born", "Lima"), ("Bob", "lives", "Oslo")]
    >>> additive_fit(Database.from_facts(table)).cycle
    ('Lima', 'Oslo')
    >>> additive_fit(Database.from_facts(table[:3])).fits
    True
    """
    codes = _codes(database, queries)
    names = tuple(database.queries[code] for code in codes)
    for first, second in ((a, b) for at, b in enumerate(codes) for a in codes[:at]):
        cycle = pair_cycle(database, first, second)
        if cycle:
            between = database.queries[first], database.queries[second]
            return AdditiveFit(False, names, tuple(database.values[value] for value in cycle), between)
    if len(codes) < 2 or (len(codes) == 2 and database.functional):
        return AdditiveFit(True, names)
    fits, margin = _programme(database, codes)
    return AdditiveFit(fits, names, margin=margin)


def additive_classes(database: Database) -> tuple[tuple[str, ...], ...]:
    """A partition of the queries that have facts into classes that need no attention among themselves.

    Greedy, so not the least number: each query joins the first class that it is known to fit.
    """
    classes: list[list[str]] = []
    for code in _codes(database, None):
        name = database.queries[code]
        home = next((members for members in classes if additive_fit(database, [*members, name]).fits), None)
        if home is None:
            classes.append([name])
        else:
            home.append(name)
    return tuple(tuple(members) for members in classes)


def pair_cycle(database: Database, first: int, second: int) -> list[int]:
    """Values in a circle, each of which some key has for the first query where it has the next for the second.

    Empty where there is no such circle: then functional queries fit. For fibers with several values, arcs lead from
    the values of the first alone to those of the second alone, which is necessary, not sufficient.
    """
    arcs = _arcs(database, first, second)
    graph = sp.csr_array((np.ones(len(arcs)), (arcs[:, 0], arcs[:, 1])), shape=(database.n_values,) * 2)
    _, component = connected_components(graph, directed=True, connection="strong")
    inside = arcs[component[arcs[:, 0]] == component[arcs[:, 1]]]
    if not len(inside):
        return []
    start, end = (int(value) for value in inside[0])
    # The arc start -> end closes a path from end back to start.
    _, before = breadth_first_order(graph, end, directed=True, return_predecessors=True)
    path = [start]
    while path[-1] != end:
        path.append(int(before[path[-1]]))
    return [start, *path[:0:-1]]


def _arcs(database: Database, first: int, second: int) -> Int[np.ndarray, "arcs 2"]:
    """The distinct pairs (value of the first query alone, value of the second alone), over all keys."""
    ones, others = (_member(database, query) for query in (first, second))
    both = ones.multiply(others)
    crossed = ((ones - both).T @ (others - both)).tocoo()
    present = crossed.data != 0
    return np.column_stack([crossed.row[present], crossed.col[present]]).astype(np.int64)


def _member(database: Database, query: int) -> sp.csr_array:
    keys, _, values = database.triples[database.triples[:, 1] == query].T
    return sp.csr_array((np.ones(len(keys)), (keys, values)), shape=(database.n_keys, database.n_values))


def _codes(database: Database, queries: Iterable[str] | None) -> list[int]:
    if queries is None:
        return [int(code) for code in np.unique(database.triples[:, 1])]
    codes = [database.queries.index(name) for name in ([queries] if isinstance(queries, str) else queries)]
    if len(set(codes)) < len(codes):
        raise InputError("each query may be named once")
    return codes


def _programme(database: Database, codes: list[int]) -> tuple[bool | None, float | None]:
    """Feasibility of G[k,f] + B[q,f] - G[k,w] - B[q,w] >= 1, and the margin of what was found."""
    triples = database.triples[np.isin(database.triples[:, 1], codes)].astype(np.int64)
    rivals = _rivals(triples)
    if rivals is None:
        return None, None
    if not len(rivals):
        return True, None
    key, query, own, other = rivals.T
    of_keys, g_own_other = np.unique(
        np.concatenate([key * database.n_values + own, key * database.n_values + other]), return_inverse=True
    )
    of_queries, b_own_other = np.unique(
        np.concatenate([query * database.n_values + own, query * database.n_values + other]), return_inverse=True
    )
    n, row = len(rivals), np.arange(len(rivals))
    columns = np.concatenate([g_own_other, len(of_keys) + b_own_other])
    signs = np.tile(np.repeat([1.0, -1.0], n), 2)
    size = len(of_keys) + len(of_queries)
    system = sp.csr_array((signs, (np.tile(row, 4), columns)), shape=(n, size))
    found = linprog(np.zeros(size), A_ub=cast("Any", -system), b_ub=-np.ones(n), bounds=(None, None), method="highs")
    if found.status == INFEASIBLE:
        return False, None
    margin = float((system @ found.x).min()) if found.status == FEASIBLE and found.x is not None else None
    return (True, margin) if margin is not None and margin > PROVED else (None, margin)


def _rivals(triples: Int[np.ndarray, "facts 3"]) -> Int[np.ndarray, "inequalities 4"] | None:
    """(key, query, value, rival): rivals are the key's values that the fiber lacks; None where there are too many."""
    if len(triples) > MOST_INEQUALITIES:
        return None
    order = np.argsort(triples[:, 0], kind="stable")
    by_key = np.split(triples[order], np.flatnonzero(np.diff(triples[order, 0])) + 1)
    fibers: dict[tuple[int, int], set[int]] = {}
    for key, query, value in triples.tolist():
        fibers.setdefault((key, query), set()).add(value)
    rows: list[tuple[int, int, int, int]] = []
    for facts in by_key:
        used = set(facts[:, 2].tolist())
        for key, query, value in facts.tolist():
            rows.extend((key, query, value, rival) for rival in used - fibers[key, query])
        if len(rows) > MOST_INEQUALITIES:
            return None
    return np.array(rows, dtype=np.int64).reshape(-1, 4)
