"""From the rows of the atlas to the law: which rows are fitted, which calibrate it, and which test it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from factrank.planning.atlas import (
    PARTS_OF_ATLAS,
    TABLE_KINDS,
    AtlasRows,
    join_rows,
    n_rows,
    products_of,
    row_parameters,
    take_rows,
)
from factrank.planning.law.calibration import Calibration, calibrate
from factrank.planning.law.fitted import AtlasLaw
from factrank.planning.law.fitting import fit_law
from factrank.planning.law.known_sizes import KnownSizes
from factrank.planning.law.law import LAW_KINDS, CapacityLaw, columns_of_rows
from factrank.planning.law.needed import (
    HEADS,
    NEEDED_KINDS,
    Needed,
    Searched,
    coverage,
    fit_needed,
    nearest_heads,
    search_sizes,
    searched,
)
from factrank.planning.law.update_law import fit_updates, sizes_of_updates

FITTED, LONGER_FITTED, CALIBRATED, UPDATES_FITTED = 30_000, 3000, 300_000, 5000
PLANNED = "planned", "planned larger"
SIZES = ("n_keys", "n_queries", "n_values", "n_facts", "n_heads", "d_model")
PLANNED_KINDS = ("uniform", "disjoint", "associations")
"""Kinds of tables that `plan` tells apart."""

FEWEST_SEARCHES = 5
"""Searches of an octave, at least."""


def part(rows: AtlasRows, name: str) -> dict[str, Any]:
    """Return the rows of one part of the atlas."""
    return take_rows(rows, np.flatnonzero(rows["part"] == PARTS_OF_ATLAS.index(name)))


def shuffled(rows: AtlasRows, seed: int = 0) -> dict[str, Any]:
    """Return the rows in a random order, the same every time."""
    return take_rows(rows, np.random.default_rng(seed).permutation(n_rows(rows)))


def recall_of(rows: AtlasRows) -> Any:
    """Return the fraction of the facts that each layer recalls."""
    return rows["right"] / rows["n_facts"]


def after(rows: AtlasRows, epochs: int) -> dict[str, Any]:
    """Return the rows as they were after fewer epochs."""
    return {**rows, "right": rows[f"right_{epochs}"], "epochs": np.full(n_rows(rows), epochs)}


def fitted_rows(rows: AtlasRows) -> dict[str, Any]:
    """Return the rows that the law is fitted to: layers of the main part at three lengths, longer and larger ones."""
    main, longer = shuffled(part(rows, "main")), shuffled(part(rows, "longer"))
    larger = shuffled(part(rows, "larger"))
    few = LONGER_FITTED
    return join_rows([
        take_rows(main, slice(FITTED)),
        after(take_rows(main, slice(FITTED, FITTED + few)), 500),
        after(take_rows(main, slice(FITTED + few, FITTED + 2 * few)), 1000),
        take_rows(longer, slice(few)),
        after(take_rows(longer, slice(few, 2 * few)), 10_000),
        after(take_rows(longer, slice(2 * few, 3 * few)), 5000),
        take_rows(larger, slice(few)),
    ])  # fmt: skip


def calibrated_groups(rows: AtlasRows) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the groups of layers that have their own intervals; none of these layers was fitted.

    The groups are each kind of table, larger tables, half of the planned layers, and half of the tables of true facts.
    """
    first = FITTED + 2 * LONGER_FITTED
    main = take_rows(shuffled(part(rows, "main")), slice(first, first + CALIBRATED))
    for place, name in enumerate(LAW_KINDS):
        yield name, take_rows(main, main["kind"] == place)
    yield "larger", take_rows(shuffled(part(rows, "larger")), slice(LONGER_FITTED, None))
    for name in PLANNED:
        searches = part(rows, name)
        yield name, take_rows(searches, searches["search"] % 2 == 0)
    samples = part(rows, "samples")
    yield "real", take_rows(samples, samples["table_seed"] % 4 < 2)  # both tables alike


def make_law(rows: AtlasRows) -> AtlasLaw:
    """Fit the law, its intervals and the needed sizes."""
    chosen = fitted_rows(rows)
    law = fit_law(columns_of_rows(chosen), recall_of(chosen))
    groups = {
        name: calibrate(law.recall(columns_of_rows(some)), recall_of(some))
        for name, some in calibrated_groups(rows)
        if n_rows(some)
    }
    updates = fit_updates(take_rows(shuffled(part(rows, "updates")), slice(UPDATES_FITTED)))
    return AtlasLaw(law, Calibration(groups), _needed(law, rows), known_sizes(rows), updates)


def known_sizes(rows: AtlasRows) -> dict[str, KnownSizes]:
    """Return the sizes of layers for the kinds of tables that `plan` tells apart, and of updates."""
    layers = join_rows([part(rows, name) for name in ("main", "larger", *PLANNED)])
    known = {}
    for kind in PLANNED_KINDS:
        some = take_rows(layers, layers["kind"] == TABLE_KINDS.index(kind))
        if kind == "disjoint":
            some = join_rows([some, part(rows, "samples")])
        if n_rows(some):
            bits = columns_of_rows(some)["bits"]
            known[kind] = KnownSizes.of({**_sizes(some), **_joint(some, bits / row_parameters(some))})
    updates = part(rows, "updates")
    trained = 2 * updates["n_heads"] * updates["d_model"] * updates["d_vo"]
    load = {"bits per trained parameter": columns_of_rows(updates)["bits"] / trained}
    known["updates"] = KnownSizes.of({**_sizes(updates), "rank": updates["d_vo"], **load})
    found = next(iter(searched(join_rows([part(rows, name) for name in PLANNED])).values()))
    for kind in NEEDED_KINDS:
        known[f"searches, {kind}"] = KnownSizes.of(search_sizes(of_kinds(found, [kind]).layers), FEWEST_SEARCHES)
    return known


def _sizes(rows: AtlasRows) -> dict[str, Any]:
    return {name: rows[name] for name in SIZES}


def _joint(rows: AtlasRows, load: Any) -> dict[str, Any]:
    cells = np.asarray(rows["n_facts"], dtype=float) * rows["n_values"]
    return {"bits per parameter": load, "facts x values": cells, "products per epoch": products_of(rows)}


def _needed(law: CapacityLaw, rows: AtlasRows) -> dict[float, Needed]:
    """Return the formula of the needed sizes for each recall."""
    found = searched(join_rows([part(rows, name) for name in PLANNED]))
    return {fraction: fit_needed(law, of_kinds(one), fraction) for fraction, one in found.items()}


def of_kinds(found: Searched, kinds: Sequence[str] = NEEDED_KINDS) -> Searched:
    """Return the searches on some kinds of tables."""
    return found.take(np.isin(found.layers["kind"], [LAW_KINDS.index(kind) for kind in kinds]))


def coverage_lines(made: AtlasLaw, fraction: float, found: Searched) -> list[str]:
    """Return the coverage of the needed sizes for one recall, of all searches and by number of heads."""
    heads = np.array([nearest_heads(one) for one in found.layers["n_heads"].tolist()])
    lines = []
    for name, at in (("all", heads > 0), *((f"{one} heads", heads == one) for one in HEADS)):
        seen = coverage(made.law, made.needed[fraction], found.take(at))
        lines.append(
            f"needed for recall {fraction}, {name}: {seen.searches} searches, "
            f"{seen.allowed / max(seen.searches, 1):.3f} allowed; {seen.answered} with an answer, "
            f"{seen.inside / max(seen.answered, 1):.3f} inside, median width {seen.width:.2f}x"
        )
    return lines


# -------------------------------------------------------------------- tests


def report_of(made: AtlasLaw, rows: AtlasRows) -> list[str]:
    """Return error and coverage of the law, a line for each set of rows that the fit never saw."""
    lines = [f"{name}: {number:.4g}" for name, number in made.law.constants.items()]
    lines += [
        f"kappa of {name}: {np.exp(a):.3f}, of its heads {np.exp(b):.3f}" for name, (a, b) in made.law.kinds.items()
    ]
    chosen, fresh, larger = fitted_rows(rows), part(rows, "fresh"), part(rows, "fresh larger")
    lines.append(_line(made, "fresh", fresh, _own_groups(fresh)))
    for place, name in enumerate(LAW_KINDS):
        some = take_rows(fresh, fresh["kind"] == place)
        lines.append(_line(made, f"  {name}", some, _own_groups(some)))
        if place:
            others = take_rows(chosen, chosen["kind"] != place)
            known = replace(made, law=fit_law(columns_of_rows(others), recall_of(others), 30))
            unknown = {**some, "kind": np.zeros_like(some["kind"])}
            lines.append(_line(known, f"  {name}, left out of the fit", unknown, np.full(n_rows(some), "uniform")))
    bijections, samples = part(rows, "left out"), part(rows, "samples")
    real = take_rows(samples, samples["table_seed"] % 4 >= 2)
    lines.append(_line(made, "bijections, as uniform", bijections, np.full(n_rows(bijections), "uniform")))
    lines.append(_line(made, "larger, by intervals of the main part", larger, _own_groups(larger)))
    lines.append(_line(made, "larger", larger, np.full(n_rows(larger), "larger")))
    lines.append(_line(made, "true facts, by intervals of disjoint tables", real, np.full(n_rows(real), "disjoint")))
    lines.append(_line(made, "true facts", real, np.full(n_rows(real), "real")))
    for name in PLANNED:
        some = part(rows, name)
        others = take_rows(some, some["search"] % 2 == 1)
        lines.append(_line(made, name, others, np.full(n_rows(others), name)))
    updates = take_rows(shuffled(part(rows, "updates")), slice(UPDATES_FITTED, None))
    predicted = made.updates.recall(sizes_of_updates(updates), columns_of_rows(updates)["bits"])
    lines.append(f"updates: {n_rows(updates):,} layers, mean error {np.abs(predicted - recall_of(updates)).mean():.4f}")
    return lines


def _own_groups(rows: AtlasRows) -> Any:
    return np.array(TABLE_KINDS)[rows["kind"]]


def _line(made: AtlasLaw, name: str, rows: AtlasRows, groups: Any) -> str:
    """Return the error of the law, and coverage and width of its intervals, of all and of those wider than a point."""
    predicted, recall = made.law.recall(columns_of_rows(rows)), recall_of(rows)
    low, high, smoothed = np.empty(len(recall)), np.empty(len(recall)), np.empty(len(recall))
    wide = np.empty(len(recall), dtype=bool)
    for group in np.unique(groups):
        at, own = groups == group, str(group)
        low[at], high[at] = made.calibration.interval(own, predicted[at])
        wide[at] = ~made.calibration.is_point(own, predicted[at])
        inside = (recall[at] >= low[at]) & (recall[at] <= high[at])
        smoothed[at] = made.calibration.smoothed(own, predicted[at], inside)
    inside = (recall >= low) & (recall <= high)
    error = np.abs(predicted - recall).mean()
    return (
        f"{name}: {len(recall):,} layers, mean error {error:.4f}, bias {np.mean(predicted - recall):+.4f}, coverage "
        f"{inside.mean():.3f}, smoothed {smoothed.mean():.3f}; {wide.mean():.2f} of the intervals are wider than a "
        f"point: coverage {inside[wide].mean():.3f}, median width {np.median((high - low)[wide]):.3f}"
    )
