"""Search for the smallest trained layer that is certified.

First along the width: from a size that holds 4.5 bits per parameter, widths are multiplied by 0.7 while they
succeed or doubled while they fail, and what lies between is bisected. Heads have the split that held most in the
capacity atlas. Then around the best: one head, one coordinate of the values, of the keys or of the stream less, until
none of these succeeds. A size succeeds if a layer is trained, rounded to the precision and certified. That a size fails
proves nothing.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import jax

from factrank.certificates import Certificate, ConfidenceClaim
from factrank.databases import Database
from factrank.experiments.models import notes_of
from factrank.families.attention.forms import host_layer
from factrank.families.attention.forms.building import certified_claim, completed
from factrank.families.attention.layer_files import SavedLayer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.searching.margin_training import Rounds, train_margins
from factrank.families.attention.searching.search_folder import FORM, SearchFolder, TriedSize
from factrank.host import memory_room
from factrank.nn import Precision, to_arrays

HEADS, D_QK, NARROWEST = 8, 2, 3
BITS_PER_PARAMETER = 4.5
"""Where the search begins."""

SMALLER = 0.7
"""Factor of the width after a success, until a size fails."""

CLOSE = 1.08
"""The bisection ends when the sizes that fail and succeed differ by this factor."""

WIDTHS = 2**14
BYTES_PER_CELL = 32
"""Memory per logit of a table and per seed while a layer is trained."""

Report = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class TrainedSearch:
    """Result of a search.

    Arguments:
        layer: the smallest certified layer; None if there is none.
        certificate: its certificate.
        probes: the sizes that were tried, in order.
        exhausted: whether no smaller size is left to try.
        refusal: why nothing was tried; empty if something was.
    """

    layer: Any = None
    certificate: Certificate | None = None
    probes: tuple[TriedSize, ...] = ()
    exhausted: bool = False
    refusal: str = ""


def usual_rounds(seed: int = 0) -> Rounds:
    """Return how sizes are trained on this machine: from two seeds on a CPU, from many on a GPU."""
    return Rounds(seeds=2 if jax.default_backend() == "cpu" else 16, seed=seed)


def planned(d_model: int) -> LayerShape:
    """Return a layer of a width, whose heads together write half as much again as it has coordinates.

    >>> planned(6), planned(40)
    (LayerShape(d_model=6, n_heads=3, d_qk=2, d_vo=3), LayerShape(d_model=40, n_heads=8, d_qk=2, d_vo=8))
    """
    heads = min(HEADS, max(2, d_model // 2))
    return LayerShape(d_model, heads, D_QK, max(1, (3 * d_model + heads) // (2 * heads)))


def search_trained(  # noqa: PLR0913 - what is asked, and how long
    database: Database,
    precision: Precision,
    claim: ConfidenceClaim | None = None,
    *,
    seconds: float,
    below: float = inf,
    folder: Path | None = None,
    rounds: Rounds | None = None,
    report: Report | None = None,
) -> TrainedSearch:
    """Search for the smallest trained layer that is certified for a table and a claim.

    Arguments:
        database: the facts; the vocabulary contains the reserved value of the claim.
        precision: type of the weights.
        claim: claim about probabilities to prove in addition.
        seconds: time limit. The size that is being trained when it ends does not count as tried.
        below: only layers with fewer parameters are of interest.
        folder: folder in which the search is kept, and from which it goes on.
        rounds: how every size is trained.
        report: receives a line for every step.
    """
    rounds = rounds or usual_rounds()
    refusal = _refusal(database, precision, claim, rounds)
    if refusal:
        return TrainedSearch(refusal=refusal)
    asked = {
        "facts": database.fingerprint,
        "precision": precision,
        "claim": None if claim is None else asdict(claim),
        "rounds": [rounds.steps, list(rounds.rates), rounds.seeds, rounds.seed],
    }
    deadline, kept = time.monotonic() + seconds, SearchFolder(folder, asked)
    return _Search(database, precision, claim, kept, rounds, deadline, report or (lambda _: None)).run(below)


def _refusal(database: Database, precision: Precision, claim: ConfidenceClaim | None, rounds: Rounds) -> str:
    if precision == "bfloat16":
        return "no bound for trained weights proves anything in bfloat16"
    if claim is not None and claim.abstain == "quiet":
        return "training does not keep a layer quiet where there is no fact; reserve a value (abstain unknown)"
    n_fibers = database.n_fibers if claim is None or claim.unknown is None else database.n_keys * database.n_queries
    needed = n_fibers * database.n_values * rounds.seeds * BYTES_PER_CELL
    return "" if needed <= memory_room() else f"{needed / 2**30:,.1f} GiB to train on all facts at once"


@dataclass(eq=False)
class _Search:
    """The state of a search: `probes` are the sizes tried so far, `best` the smallest certified layer."""

    database: Database
    precision: Precision
    claim: ConfidenceClaim | None
    folder: SearchFolder
    rounds: Rounds
    deadline: float
    report: Report

    def __post_init__(self) -> None:
        self.table, self.probes = completed(self.database, self.claim), self.folder.probes()
        self.best = self._resumed()

    def run(self, below: float) -> TrainedSearch:
        tried = {probe.shape: probe for probe in self.probes}
        exhausted = True
        for shape in self._sizes(below, tried):
            if shape not in tried:
                if time.monotonic() >= self.deadline:
                    exhausted = False
                    break
                probe = self._tried(shape)
                if probe is None:
                    exhausted = False
                    break
                tried[shape] = probe
        layer, certificate = self.best or (None, None)
        if exhausted:
            self.folder.remove()
        return TrainedSearch(layer, certificate, tuple(self.probes), exhausted)

    def _sizes(self, below: float, tried: dict[LayerShape, TriedSize]) -> Iterator[LayerShape]:
        """Yield the next size to try; `tried` has its result when the next one is asked for."""

        def size(d_model: int) -> int:
            return planned(d_model).parameters(*self.database.shape)

        widths = range(NARROWEST, WIDTHS)
        start = widths[min(bisect_left(widths, self.database.bits / BITS_PER_PARAMETER, key=size), len(widths) - 1)]
        largest = widths[max(bisect_left(widths, below, key=size) - 1, 0)]
        low, high, d_model = NARROWEST - 1, None, min(start, largest)
        if size(d_model) >= below:
            return
        while high is None or (high - low > 1 and size(high) > CLOSE * size(low)):
            yield planned(d_model)
            if tried[planned(d_model)].certified:
                high = d_model
                d_model = max((low + high) // 2 if low >= NARROWEST else int(SMALLER * high), NARROWEST)
            else:
                low = d_model
                d_model = min(2 * low, largest) if high is None else (low + high) // 2
            if (high is None and low >= largest) or (high is not None and high <= NARROWEST):
                break
        if high is not None:
            yield from self._around(tried, min(tried.values(), key=_smallest_first).shape)

    def _around(self, tried: dict[LayerShape, TriedSize], shape: LayerShape) -> Iterator[LayerShape]:
        """Yield smaller neighbours of the best size, until none of them succeeds."""
        going = True
        while going:
            going = False
            neighbours = [
                replace(shape, **{name: getattr(shape, name) - 1})
                for name in ("n_heads", "d_vo", "d_qk", "d_model")
                if getattr(shape, name) > 1
            ]
            for other in sorted(neighbours, key=lambda one: one.parameters(*self.database.shape)):
                yield other
                if tried[other].certified:
                    shape, going = other, True
                    break

    def _tried(self, shape: LayerShape) -> TriedSize | None:
        """Train and certify a size; None if the time ended before that."""
        started, parameters = time.monotonic(), shape.parameters(*self.database.shape)
        n_fibers = self.table.n_fibers

        def on_step(steps: int, wrong: int) -> None:
            best = "" if self.best is None else f"; best so far {self.best[0].parameters:,}"
            self.report(f"{parameters:,} parameters, step {steps:,}: {wrong:,} of {n_fibers:,} pairs wrong{best}")

        found = train_margins(self.table, shape, self.rounds, until=self.deadline, on_step=on_step)
        certified = False
        if not found.wrong:
            rounded = host_layer(self.database.n_keys, self.precision, to_arrays(found.layer))
            layer, _, certificate = certified_claim(rounded, self.database, self.claim)
            certified = certificate.certified
        if not certified and time.monotonic() >= self.deadline:
            return None
        probe = TriedSize(shape, parameters, certified, found.wrong, found.steps, round(time.monotonic() - started, 3))
        self.probes.append(probe)
        better = certified and (self.best is None or parameters < self.best[0].parameters)
        if better:
            self.best = layer, certificate
        self.folder.keep(self.probes, self._saved() if better else None)
        return probe

    def _saved(self) -> SavedLayer | None:
        if self.best is None:
            return None
        layer, certificate = self.best
        return SavedLayer(layer, self.database, notes_of(FORM, {}, certificate))

    def _resumed(self) -> tuple[Any, Certificate] | None:
        """Return the layer in the folder if it is certified for these facts and this claim; it is not trusted."""
        saved = self.folder.best() if self.probes else None
        if saved is None or saved.database.shape != self.database.shape:
            return None
        layer, _, certificate = certified_claim(saved.layer, self.database, self.claim)
        return (layer, certificate) if certificate.certified and certificate.precision == self.precision else None


def _smallest_first(probe: TriedSize) -> tuple[bool, int]:
    return not probe.certified, probe.parameters
