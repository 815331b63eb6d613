"""What workers do: read, measure, construct, train and plan, each with the functions of the package.

A task takes the request and a function that reports events, writes its files to the current folder, and returns its
result. `payload.json` contains the parts of the page's payload that the task computes, and `about`, the fingerprint of
the facts that they are about: the page takes no part that is about other facts.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import asdict
from pathlib import Path
from typing import Any

import factrank
from factrank.app.server.requests import (
    UPLOAD,
    ConstructOptions,
    MeasureOptions,
    PlanOptions,
    TableOptions,
    TrainOptions,
    checked,
)
from factrank.databases import Database, sample
from factrank.databases.files import read, write
from factrank.errors import FactrankError, InputError
from factrank.readouts import finite_data

Tell = Callable[..., None]
Request = Mapping[str, Any]
N_SNAPSHOTS = 60
DEFAULT_SIZES = {"d_model": 16, "n_heads": 2, "d_qk": 2, "d_vo": 8}
MOST_WEIGHTS = 200_000
"""Parameters of a layer that is trained here, because its snapshots are kept."""

LIBRARIES = ("factrank.app.page.payload", "factrank.families.attention.forms.choose", "factrank.planning.plans")
"""Modules that most tasks need, and that are slow to load."""

PAYLOAD, LAYER, FACTS, CURVE = "payload.json", "layer.safetensors", "facts.csv", "curve.csv"


def read_table(request: Request, tell: Tell) -> dict[str, Any]:
    """Read a table, write it as CSV, and suggest the sizes of a layer."""
    from factrank.app.page import explorer_payload  # noqa: PLC0415

    tell("progress", text="reading the table")
    database = _table(request)
    if not database.n_facts:
        raise InputError("the table has no facts")
    tell("progress", text="preparing the page")
    write(database, FACTS)
    title = str(request["table"]["title"])
    _write_payload(database, database=explorer_payload(database)["database"], title=title)
    return {
        "title": title,
        "facts": database.n_facts,
        "keys": database.n_keys,
        "queries": database.n_queries,
        "values": database.n_values,
        "functional": database.functional,
        "full": database.full,
        "duplicates": database.duplicates,
        "bits": database.bits,
        "suggested": _suggested(database),
    }


def measure(request: Request, tell: Tell) -> dict[str, Any]:
    """Bound the ranks of the table."""
    from factrank.app.page import explorer_payload  # noqa: PLC0415
    from factrank.tensors import measure as measured  # noqa: PLC0415

    options = checked(MeasureOptions, request["options"])
    database = _table(request)
    found = measured(database, options.budget, on_step=lambda method: tell("progress", text=f"trying {method}"))
    _write_json("measurement.json", found.to_dict())
    _write_payload(database, measurement=explorer_payload(database, measurement=found)["measurement"])
    return {name: [bounds.lower.value, bounds.upper.value] for name, bounds in found.brackets.items()}


def construct(request: Request, tell: Tell) -> dict[str, Any]:
    """Write the table into the smallest layer, and prove it."""
    from factrank.app.page import explorer_payload  # noqa: PLC0415
    from factrank.families.attention.searching import construct as constructed  # noqa: PLC0415 - loads JAX

    options = checked(ConstructOptions, request["options"])
    database = _table(request)
    tell("progress", text="comparing closed forms, and proving the smallest")
    found = constructed(database, options.precision, options.minimise, options.budget)
    tell("progress", text="writing the layer")
    if found.certified:
        found.save(LAYER)
    certificate = found.certificate if found.certified else None
    payload = explorer_payload(found.data, found.model, certificate=certificate)
    _write_payload(found.data, layer=payload["layer"], certificate=payload["certificate"])
    return {
        "form": found.form,
        "reason": found.reason,
        "precision": found.precision,
        "shape": asdict(found.spec),
        "parameters": found.parameters,
        "certified": found.certified,
        "proved_margin": found.certificate.proved_margin,
        "bits_per_parameter": found.bits_per_parameter,
    }


def train(request: Request, tell: Tell) -> dict[str, Any]:
    """Train a layer, and keep it as it is at about sixty epochs.

    The layer at an epoch is the one that `factrank.train` returns for that many epochs, bit for bit.
    """
    from factrank.app.page import coded_parts, explorer_payload  # noqa: PLC0415
    from factrank.experiments.models import verify  # noqa: PLC0415
    from factrank.experiments.specs import Given, TauRecall, Training, Trial  # noqa: PLC0415
    from factrank.families.attention import LayerShape, save_layer  # noqa: PLC0415
    from factrank.families.attention.fused import snapshots  # noqa: PLC0415
    from factrank.readouts import recall  # noqa: PLC0415

    options = checked(TrainOptions, request["options"])
    database = _table(request)
    shape = LayerShape(options.d_model, options.n_heads, options.d_qk, options.d_vo)
    parameters = shape.parameters(*database.shape)
    if parameters > MOST_WEIGHTS:
        raise InputError(f"the layer would have {parameters:,} parameters; here, it may have {MOST_WEIGHTS:,}")
    rates = {"learning_rate": options.learning_rate, "weight_decay": options.weight_decay}
    training = Training(epochs=options.epochs, engine="fused", **rates)  # type: ignore[arg-type]
    trial = Trial(Given(database.fingerprint), shape, training, (TauRecall((options.tau,)),), seed=options.seed)
    tell("progress", text="preparing (the first time, this compiles the engine for about half a minute)")
    points: list[dict[str, Any]] = []
    for snapshot in snapshots(trial, database, snapshot_epochs(options.epochs)):
        found = recall(snapshot.layer, database, options.tau)
        _write_json(f"epoch-{snapshot.epoch}.json", coded_parts(snapshot.layer))
        points.append(
            {
                "epoch": snapshot.epoch,
                "loss": snapshot.loss,
                "recall": found.recall,
                "recall_tau": found.recall_tau,
                "hallucinations": found.hallucinations,
                "missing": found.silent_fibers,
                "margin": found.margin,
            }
        )
        tell("point", **points[-1])
    tell("progress", text="checking whether recall can be proved")
    certificate = verify(snapshot.layer, database) if found.recall == 1 else None
    proved = certificate is not None and certificate.certified
    notes = {"factrank": factrank.__version__, "trial": trial.hash, "seed": str(options.seed)}
    save_layer(LAYER, snapshot.layer, database, notes=notes)
    _write_rows(CURVE, points)
    payload = explorer_payload(database, snapshot.layer, certificate=certificate if proved else None)
    _write_payload(database, layer=payload["layer"], certificate=payload["certificate"])
    last = points[-1]
    return {**last, "shape": asdict(shape), "parameters": parameters, "tau": options.tau, "certified": proved}


def plan(request: Request, tell: Tell) -> dict[str, Any]:
    """Plan the smallest layers for the table."""
    from factrank.planning import plan as planned  # noqa: PLC0415

    options = checked(PlanOptions, request["options"])
    database = _table(request)
    tell("progress", text="planning")
    found = planned(database, recall=options.recall)
    plain = found.to_dict()
    _write_json("plan.json", plain)
    return {
        "recall": found.recall,
        "least_parameters": found.least_parameters,
        "proved": [_proved(one) for one in found.proved if one.precision == found.precision][:6],
        "trained": [_trained(one) for one in found.trained][:8],
    }


TASKS: Mapping[str, Callable[[Request, Tell], dict[str, Any]]] = {
    "read": read_table,
    "measure": measure,
    "construct": construct,
    "train": train,
    "plan": plan,
}
"""The task of each kind of job."""


def snapshot_epochs(epochs: int, most: int = N_SNAPSHOTS) -> list[int]:
    """Return the epochs of snapshots: the first and the last, and denser at the start, where layers change fastest.

    >>> snapshot_epochs(2000)[:6], snapshot_epochs(2000)[-1], snapshot_epochs(3)
    ([0, 1, 2, 5, 9, 14], 2000, [0, 1, 2, 3])
    """
    return sorted({round(epochs * (step / most) ** 2) for step in range(most + 1)})


def _table(request: Request) -> Database:
    """Read the table of a request, from within the folder of its file, so that errors give its plain name."""
    table, most = request["table"], request["limits"]["facts"]
    if table.get("sample") is not None:
        database = sample(table["sample"])
    else:
        options = checked(TableOptions, table["options"])
        header = None if options.header else False  # only delimited text has a header that may be missing
        with chdir(UPLOAD):
            database = read(table["file"], wide=options.layout == "wide", multi=options.multi, header=header)
    if database.n_facts > most:
        raise InputError(f"the table has {database.n_facts:,} facts; the live explorer takes {most:,}")
    return database


def _suggested(database: Database) -> dict[str, Any]:
    """Return the sizes of the smallest layer that is expected to recall 95% after training, if they can be planned."""
    from factrank.planning import plan as planned  # noqa: PLC0415

    try:
        best = planned(database, recall=0.95).best
    except FactrankError:  # there are no plans for several values of one (key, query), or for a single value
        best = None
    return DEFAULT_SIZES if best is None else asdict(best.shape)


def _proved(layer: Any) -> dict[str, Any]:
    return {"form": layer.form, **asdict(layer.shape), "parameters": layer.parameters}


def _trained(layer: Any) -> dict[str, Any]:
    names = ("parameters", "recall", "recall_low", "recall_high", "seconds_on_cpu", "beyond")
    return {**asdict(layer.shape), **{name: getattr(layer, name) for name in names}}


def _write_payload(facts: Database, /, **parts: Any) -> None:
    """Write parts of the page's payload, and the fingerprint of the facts that they are about."""
    _write_json(PAYLOAD, {"about": facts.fingerprint, **parts})


def _write_json(name: str, data: Any) -> None:
    draft = Path(f"{name}.part")
    draft.write_text(json.dumps(finite_data(data), allow_nan=False), encoding="utf-8")
    draft.rename(name)


def _write_rows(name: str, rows: list[dict[str, Any]]) -> None:
    with Path(name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
