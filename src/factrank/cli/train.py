"""`factrank train`: layers that learn a table of facts, several seeds at once.

Exit codes: 0 when the training is done, whatever the recall; 1 when every seed diverged, so that there is no layer to
keep; 2 for bad input; 130, as usual after Ctrl-C, when it was interrupted: the seeds that had ended by then are
reported all the same, and the best of them is saved.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import factrank
from factrank.cli.sources import Long, Multi, NoHeader, Source, Wide, load
from factrank.databases import Database
from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.training import Trial, TrialResult

SUFFIX = ".safetensors"
INTERRUPTED = 130
DEFAULT_D_MODEL, DEFAULT_HEADS, DEFAULT_SEEDS = 16, 2, 4


class StopAt(Enum):
    """When a seed ends early; the members of `factrank.training.trial.Stop`."""

    never = "never"
    recall = "recall"
    recall_tau = "recall_tau"


def train(
    source: Source,
    d_model: Annotated[int, typer.Option("--d-model", min=1, help="Width of the embeddings.")] = DEFAULT_D_MODEL,
    heads: Annotated[int, typer.Option("--heads", min=1, help="Number of heads.")] = DEFAULT_HEADS,
    d_qk: Annotated[
        int | None, typer.Option("--d-qk", min=1, help="Query-key width of a head; d_model / heads if not given.")
    ] = None,
    d_vo: Annotated[
        int | None, typer.Option("--d-vo", min=1, help="Value-output width of a head; d_model / heads if not given.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Layers to train at once, seeds 0, 1, ...")] = DEFAULT_SEEDS,
    epochs: Annotated[int, typer.Option(min=0, help="Passes over the facts, at most.")] = 2000,
    lr: Annotated[float, typer.Option("--lr", min=0.0, help="Learning rate of Adam.")] = 0.01,
    weight_decay: Annotated[float, typer.Option(min=0.0, help="Decoupled weight decay.")] = 0.0,
    tau: Annotated[float, typer.Option(help="The probability from which an answer is confident.")] = 0.95,
    stop: Annotated[
        StopAt,
        typer.Option(
            help="End a seed early when every fact has the largest logit (recall), or probability tau (recall_tau)."
        ),
    ] = StopAt.recall_tau,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Save the best layer here, as .safetensors.", metavar="FILE")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    long: Long = None,
    wide: Wide = False,
    no_header: NoHeader = False,
    multi: Multi = False,
) -> None:
    """Train attention layers on a table of facts, several seeds at once, and keep the best.

    The best has the highest recall, then the highest recall at tau, then the largest margin.

    After Ctrl-C, seeds that had ended are reported, the best is saved, and the exit code is 130.
    """
    from factrank.models import LayerShape  # noqa: PLC0415 - JAX takes a second to load
    from factrank.readouts.readout import require_threshold  # noqa: PLC0415
    from factrank.report.layers import trained_table  # noqa: PLC0415
    from factrank.training import Given, Measures, TerminalMeter, Training, Trial, train_many  # noqa: PLC0415

    if output is not None:
        _require_output(output)
    require_threshold(tau)
    width = max(1, d_model // heads)
    shape = LayerShape(d_model, heads, d_qk or width, d_vo or width)
    training = Training(learning_rate=lr, weight_decay=weight_decay, epochs=epochs, stop=stop.value)
    database = load(source, long=long, wide=wide, no_header=no_header, multi=multi)
    measures = Measures(taus=(tau,), artifacts=True)
    trials = [Trial(Given(database.fingerprint), shape, training, seed, measures) for seed in range(seeds)]
    with TerminalMeter() as meter:
        results = train_many(trials, databases=[database], meter=meter, interruptible=True)
    best = _best(results)
    if output is not None and best is not None:
        _save(output, best, database)
    if json:
        from factrank.report.plain import json_text  # noqa: PLC0415

        typer.echo(json_text(_plain(results, best, database, output)))
    else:
        Console(highlight=False).print(trained_table(source, database, results, best))
        if output is not None and best is not None:
            typer.echo(f"saved to {output}")
    _exit(results, best)


def _best(results: Sequence[TrialResult]) -> TrialResult | None:
    """The result with the highest recall, then tau-recall, then least margin; None where no seed has a sound model."""
    sound = [result for result in results if result.weights is not None and result.status != "diverged"]
    return max(sound, key=_merit, default=None)


def _merit(result: TrialResult) -> tuple[float, ...]:
    merits = result.recall, result.recall_tau, result.metrics["margin"]
    return tuple(float("-inf") if isnan(merit) else merit for merit in merits)


def _save(path: Path, best: TrialResult, database: Database) -> None:
    from factrank.models import save_layer  # noqa: PLC0415 - JAX takes a second to load

    notes = {
        "factrank": factrank.__version__,
        "trial": best.trial.hash,
        "seed": str(best.trial.seed),
        "recall": repr(best.recall),
        f"recall at {best.trial.measures.taus[0]:g}": repr(best.recall_tau),
    }
    save_layer(path, best.model, database, notes=notes)


def _plain(
    results: Sequence[TrialResult], best: TrialResult | None, database: Database, output: Path | None
) -> dict[str, Any]:
    """One object: the numbers of the best seed on top, those of all seeds in a list."""
    trial: Trial = results[0].trial
    parameters = trial.model.parameters(*database.shape)
    return {
        "shape": asdict(trial.model),
        "parameters": parameters,
        "facts": database.n_facts,
        "bits": database.bits,
        "bits_per_parameter": database.bits / parameters,
        "tau": trial.measures.taus[0],
        **(_numbers(best) if best is not None else dict.fromkeys(("recall", "recall_tau", "margin", "artifacts"))),
        "best_seed": best.trial.seed if best is not None else None,
        "layer": str(output) if output is not None and best is not None else None,
        "interrupted": _was_interrupted(results),
        "seeds": [_seed(result) for result in results],
    }


def _seed(result: TrialResult) -> dict[str, Any]:
    metrics = result.metrics
    return {
        "seed": result.trial.seed,
        "trial": result.trial.hash,
        "status": result.status,
        "epochs": result.epochs,
        **_numbers(result),
        "median_margin": metrics.get("median_margin"),
        "loss": metrics.get("loss"),
    }


def _numbers(result: TrialResult) -> dict[str, Any]:
    artifacts = result.metrics.get(f"artifacts_{result.trial.measures.taus[0]}")
    return {
        "recall": result.recall,
        "recall_tau": result.recall_tau,
        "margin": result.metrics.get("margin"),
        "artifacts": None if artifacts is None else int(artifacts),
    }


def _was_interrupted(results: Sequence[TrialResult]) -> bool:
    return any(result.status == "interrupted" for result in results)


def _exit(results: Sequence[TrialResult], best: TrialResult | None) -> None:
    """Say on standard error what did not go as asked, and end with the code for it."""
    ended = sum(result.weights is not None for result in results)
    if _was_interrupted(results):
        kept = "" if best is not None else ", and there is no layer to keep"
        typer.echo(f"factrank: interrupted; {ended} of {len(results)} seeds had ended{kept}", err=True)
        raise typer.Exit(INTERRUPTED)
    if best is None:
        typer.echo("factrank: every seed diverged; there is no layer to keep. Try a lower --lr", err=True)
        raise typer.Exit(1)


def _require_output(path: Path) -> None:
    """Check before hours of training that the layer can be saved afterwards."""
    if path.suffix.lower() != SUFFIX:
        raise InputError(f"{path}: a layer is saved in a file whose name ends in {SUFFIX}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise InputError(f"{path}: is a directory, not a file")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{path}: cannot be written: no permission to write to the folder {path.parent}")
