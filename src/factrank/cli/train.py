"""`factrank train`: train attention layers on a table of facts, several seeds at once.

Exit codes: 0 if training finished, at any recall; 1 if every seed diverged, so there is no layer to save; 2 for bad
input, or if the layer cannot be saved (the report is still printed); 130 after Ctrl-C: finished seeds are reported and
the best of them is saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import factrank
from factrank.cli.recall import Tau
from factrank.cli.support.outputs import require_output
from factrank.cli.support.sources import Sources, Table, reads_table, title
from factrank.cli.support.terminal import INTERRUPTED, Json, complain, display, say, say_json
from factrank.cli.support.training_memory import fitting_batches, require_weights_fit
from factrank.databases import Database
from factrank.errors import FactrankError

if TYPE_CHECKING:
    from factrank.experiments import TrialResult
    from factrank.experiments.specs import Trial

DEFAULT_D_MODEL, DEFAULT_HEADS, DEFAULT_SEEDS = 16, 2, 4


StopName = Literal["never", "recall", "recall_tau"]
"""The members of `factrank.experiments.specs.Stop`, without importing JAX."""


@reads_table
def train(
    source: Sources,
    table: Table,
    d_model: Annotated[
        int, typer.Option("--d-model", min=1, metavar="N", help="Width of the embeddings.")
    ] = DEFAULT_D_MODEL,
    heads: Annotated[int, typer.Option("--heads", min=1, metavar="N", help="Number of heads.")] = DEFAULT_HEADS,
    d_qk: Annotated[
        int | None,
        typer.Option("--d-qk", min=1, metavar="N", help="Query-key width of a head; d_model / heads by default."),
    ] = None,
    d_vo: Annotated[
        int | None,
        typer.Option("--d-vo", min=1, metavar="N", help="Value-output width of a head; d_model / heads by default."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of layers to train, with seeds 0, 1, ...")
    ] = DEFAULT_SEEDS,
    epochs: Annotated[int, typer.Option(min=0, metavar="N", help="Most passes over the facts.")] = 2000,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Facts per step; by default, all of them or as many as fit in memory."),
    ] = None,
    lr: Annotated[float, typer.Option("--lr", min=0.0, metavar="X", help="Learning rate of Adam.")] = 0.01,
    weight_decay: Annotated[float, typer.Option(min=0.0, metavar="X", help="Decoupled weight decay.")] = 0.0,
    tau: Tau = 0.95,
    stop: Annotated[
        StopName | None,
        typer.Option(
            help="Stop a seed early once every fact has the largest logit (recall) or probability tau (recall_tau). "
            "By default recall_tau, or recall if a (key, query) has more than 1/tau values.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Save the best layer to this .safetensors file.", metavar="FILE"),
    ] = None,
    engine: Annotated[
        Literal["auto", "fused", "lanes"],
        typer.Option(help="Training engine: fused (one model per thread) or lanes (compiled for the shape)."),
    ] = "auto",
    checkpoints: Annotated[
        Path | None,
        typer.Option(
            help="Save the states of unfinished seeds in this folder, and resume from the states found there.",
            metavar="FOLDER",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Train attention layers on a table of facts and keep the best.

    Several seeds are trained at once. The best layer has the highest recall, then the highest recall at tau, then the
    largest margin. On Ctrl-C the finished seeds are reported, the best of them is saved, and the exit code is 130; with
    --checkpoints, the same command then resumes the others.

    Example: factrank train facts.csv --heads 2 -o layer.safetensors
    """
    from factrank.experiments import TerminalMeter, best_of, train_many  # noqa: PLC0415
    from factrank.experiments.specs import Given, TauRecall, Training, Trial  # noqa: PLC0415
    from factrank.families.attention import Hallucinations, LayerShape  # noqa: PLC0415 - JAX takes a second to load

    if output is not None:
        require_output(output)
    measures = (TauRecall((tau,)), Hallucinations())
    width = max(1, d_model // heads)
    shape = LayerShape(d_model, heads, d_qk or width, d_vo or width)
    database = table.load(source)
    require_weights_fit(shape.parameters(*database.shape), seeds)
    aim = _stop(stop, database, tau)
    training = Training(learning_rate=lr, weight_decay=weight_decay, epochs=epochs, stop=aim, engine=engine)
    training = replace(training, batch_size=batch_size)
    training = fitting_batches(Trial(Given(database.fingerprint), shape, training, measures), database)
    trials = [Trial(Given(database.fingerprint), shape, training, measures, seed=seed) for seed in range(seeds)]
    with TerminalMeter() as meter:
        results = train_many(trials, databases=[database], meter=meter, interruptible=True, checkpoints=checkpoints)
    _report(title(source), database, results, output, json)
    _exit(results, best_of(results), checkpoints)


def _report(source: str, database: Database, results: Sequence[TrialResult], output: Path | None, json: bool) -> None:
    """Save the best layer and print the report; raises an error of saving after that."""
    from factrank.experiments import best_of  # noqa: PLC0415
    from factrank.report import trained_table  # noqa: PLC0415

    best = best_of(results)
    problem = _save(output, best, database) if output is not None and best is not None else None
    saved = output if best is not None and problem is None else None
    if json:
        say_json(_plain(results, best, database, saved))
    else:
        display(trained_table(source, database, results, best))
        if saved is not None:
            say(f"saved to {saved}")
    if problem is not None:
        raise problem


def _save(path: Path, best: TrialResult, database: Database) -> Exception | None:
    """Save the layer; returns the error instead of raising it, so the report of a long training is printed first."""
    from factrank.families.attention import save_layer  # noqa: PLC0415 - JAX takes a second to load

    notes = {
        "factrank": factrank.__version__,
        "trial": best.trial.hash,
        "seed": str(best.trial.seed),
        "recall": repr(best.recall),
        f"recall at {best.trial.taus[0]:g}": repr(best.recall_tau),
    }
    try:
        save_layer(path, best.model, database, notes=notes)
    except (FactrankError, OSError, MemoryError) as problem:
        return problem
    return None


def _plain(
    results: Sequence[TrialResult], best: TrialResult | None, database: Database, saved: Path | None
) -> dict[str, Any]:
    """Return the numbers of the best seed at the top level, and the numbers of every seed in a list."""
    from factrank.experiments import family_of  # noqa: PLC0415

    trial: Trial = results[0].trial
    parameters = family_of(trial.model).work(trial, database).parameters
    return {
        "shape": asdict(trial.model),
        "parameters": parameters,
        "facts": database.n_facts,
        "bits": database.bits,
        "bits_per_parameter": database.bits / parameters,
        "tau": trial.taus[0],
        **(_numbers(best) if best is not None else dict.fromkeys(("recall", "recall_tau", "margin", "hallucinations"))),
        "best_seed": best.trial.seed if best is not None else None,
        "layer": str(saved) if saved is not None else None,
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
    hallucinations = result.metrics.get(f"hallucinations_{result.trial.taus[0]}")
    return {
        "recall": result.recall,
        "recall_tau": result.recall_tau,
        "margin": result.metrics.get("margin"),
        "hallucinations": None if hallucinations is None else int(hallucinations),
    }


def _was_interrupted(results: Sequence[TrialResult]) -> bool:
    return any(result.status == "interrupted" for result in results)


def _exit(results: Sequence[TrialResult], best: TrialResult | None, checkpoints: Path | None) -> None:
    """Report an interruption or divergence on standard error, and exit with its code."""
    ended = sum(result.weights is not None for result in results)
    if _was_interrupted(results):
        kept = "" if best is not None else ", so there is no layer to save"
        unended = {result.trial.hash for result in results if result.status == "interrupted"}
        kept_states = {path.stem for path in checkpoints.glob("*")} if checkpoints is not None else set()
        found = any(name in unended or name.startswith("lanes-") for name in kept_states)  # lanes name no trial
        again = f"; the same command resumes from the checkpoints in {checkpoints}" if found else ""
        complain(f"interrupted; {ended} of {len(results)} seeds had finished{kept}{again}")
        raise typer.Exit(INTERRUPTED)
    if best is None:
        complain("every seed diverged, so there is no layer to save; try a lower --lr")
        raise typer.Exit(1)


def _stop(given: StopName | None, database: Database, tau: float) -> StopName:
    """Return when to stop a seed: more than 1/tau values of one (key, query) cannot all have probability tau."""
    from factrank.readouts import fiber_sizes  # noqa: PLC0415 - JAX takes a second to load

    most = int(fiber_sizes(database).max(initial=1))
    reachable = most * tau <= 1
    if given is None:
        return "recall_tau" if reachable else "recall"
    if given == "recall_tau" and not reachable:
        note = f"a (key, query) has {most} values, which cannot all have probability {tau:g}: no seed will stop early"
        complain(f"{note}; use --stop recall")
    return given
