"""`factrank train`: layers that learn a table of facts, several seeds at once.

Exit codes: 0 when the training is done, whatever the recall; 1 when every seed diverged, so that there is no layer to
keep; 2 for bad input, and when the layer cannot be saved (the report is printed all the same); 130, as usual after
Ctrl-C, when it was interrupted: the seeds that had ended by then are reported, and the best of them is saved.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import factrank
from factrank.cli.support.outputs import require_output
from factrank.cli.support.sources import Sources, Table, reads_table, title
from factrank.cli.support.terminal import complain, display, say
from factrank.cli.support.training_memory import fitting_batches, require_weights_fit
from factrank.databases import Database
from factrank.errors import FactrankError

if TYPE_CHECKING:
    from factrank.experiments import TrialResult
    from factrank.experiments.specs import Trial

INTERRUPTED = 130
DEFAULT_D_MODEL, DEFAULT_HEADS, DEFAULT_SEEDS = 16, 2, 4


class StopAt(Enum):
    """When a seed ends early; the members of `factrank.experiments.specs.trial.Stop`."""

    never = "never"
    recall = "recall"
    recall_tau = "recall_tau"


class EngineWanted(Enum):
    """What trains; the members of `factrank.experiments.specs.trial.EngineChoice`."""

    auto = "auto"
    fused = "fused"
    lanes = "lanes"


@reads_table
def train(
    source: Sources,
    table: Table,
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
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Facts per step; all, or what memory allows, if not given.")
    ] = None,
    lr: Annotated[float, typer.Option("--lr", min=0.0, help="Learning rate of Adam.")] = 0.01,
    weight_decay: Annotated[float, typer.Option(min=0.0, help="Decoupled weight decay.")] = 0.0,
    tau: Annotated[float, typer.Option(help="The probability from which an answer is confident.")] = 0.95,
    stop: Annotated[
        StopAt | None,
        typer.Option(
            help="End a seed early when every fact has the largest logit (recall), or probability tau (recall_tau). "
            "If not given recall_tau, or recall where a (key, query) has more than 1/tau values.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Save the best layer here, as .safetensors.", metavar="FILE")
    ] = None,
    engine: Annotated[
        EngineWanted, typer.Option(help="What trains: fused (one model per thread), lanes (compiled for the shape).")
    ] = EngineWanted.auto,
    checkpoints: Annotated[
        Path | None,
        typer.Option(
            help="Keep the states of unfinished seeds in this folder, and go on from those that are there "
            "(fused engine only).",
            metavar="FOLDER",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train attention layers on a table of facts, several seeds at once, and keep the best.

    The best has the highest recall, then the highest recall at tau, then the largest margin.

    After Ctrl-C, seeds that had ended are reported, the best is saved, and the exit code is 130. With --checkpoints the
    same command then continues with the others from where they were.
    """
    from factrank.experiments import (  # noqa: PLC0415
        TerminalMeter,
        best_of,
        train_many,
    )
    from factrank.experiments.specs import (  # noqa: PLC0415
        Given,
        Measures,
        Training,
        Trial,
    )
    from factrank.families.attention import LayerShape  # noqa: PLC0415 - JAX takes a second to load

    if output is not None:
        require_output(output)
    measures = Measures(taus=(tau,), artifacts=True)
    width = max(1, d_model // heads)
    shape = LayerShape(d_model, heads, d_qk or width, d_vo or width)
    database = table.load(source)
    require_weights_fit(shape.parameters(*database.shape), seeds)
    aim = _stop(stop, database, tau)
    training = Training(learning_rate=lr, weight_decay=weight_decay, epochs=epochs, stop=aim.value, engine=engine.value)
    training = replace(training, batch_size=batch_size)
    training = fitting_batches(Trial(Given(database.fingerprint), shape, training, 0, measures), database)
    trials = [Trial(Given(database.fingerprint), shape, training, seed, measures) for seed in range(seeds)]
    with TerminalMeter() as meter:
        results = train_many(trials, databases=[database], meter=meter, interruptible=True, checkpoints=checkpoints)
    _report(title(source), database, results, output, json)
    _exit(results, best_of(results), checkpoints)


def _report(source: str, database: Database, results: Sequence[TrialResult], output: Path | None, json: bool) -> None:
    """Save the best layer and print what was trained; what hinders the saving is raised after that."""
    from factrank.experiments import best_of  # noqa: PLC0415
    from factrank.report import (  # noqa: PLC0415
        json_text,
        trained_table,
    )

    best = best_of(results)
    problem = _save(output, best, database) if output is not None and best is not None else None
    saved = output if best is not None and problem is None else None
    if json:
        say(json_text(_plain(results, best, database, saved)))
    else:
        display(trained_table(source, database, results, best))
        if saved is not None:
            say(f"saved to {saved}")
    if problem is not None:
        raise problem


def _save(path: Path, best: TrialResult, database: Database) -> Exception | None:
    """Save the layer; what hinders it is handed back, so that the report of a long training comes first."""
    from factrank.families.attention import save_layer  # noqa: PLC0415 - JAX takes a second to load

    notes = {
        "factrank": factrank.__version__,
        "trial": best.trial.hash,
        "seed": str(best.trial.seed),
        "recall": repr(best.recall),
        f"recall at {best.trial.measures.taus[0]:g}": repr(best.recall_tau),
    }
    try:
        save_layer(path, best.model, database, notes=notes)
    except (FactrankError, OSError, MemoryError) as problem:
        return problem
    return None


def _plain(
    results: Sequence[TrialResult], best: TrialResult | None, database: Database, saved: Path | None
) -> dict[str, Any]:
    """One object: the numbers of the best seed on top, those of all seeds in a list."""
    from factrank.experiments import family_of  # noqa: PLC0415 - loads JAX, as training does

    trial: Trial = results[0].trial
    parameters = family_of(trial.model).work(trial, database).parameters
    return {
        "shape": asdict(trial.model),
        "parameters": parameters,
        "facts": database.n_facts,
        "bits": database.bits,
        "bits_per_parameter": database.bits / parameters,
        "tau": trial.measures.taus[0],
        **(_numbers(best) if best is not None else dict.fromkeys(("recall", "recall_tau", "margin", "artifacts"))),
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
    artifacts = result.metrics.get(f"artifacts_{result.trial.measures.taus[0]}")
    return {
        "recall": result.recall,
        "recall_tau": result.recall_tau,
        "margin": result.metrics.get("margin"),
        "artifacts": None if artifacts is None else int(artifacts),
    }


def _was_interrupted(results: Sequence[TrialResult]) -> bool:
    return any(result.status == "interrupted" for result in results)


def _exit(results: Sequence[TrialResult], best: TrialResult | None, checkpoints: Path | None) -> None:
    """Say on standard error what did not go as asked, and end with the code for it."""
    ended = sum(result.weights is not None for result in results)
    if _was_interrupted(results):
        kept = "" if best is not None else ", and there is no layer to keep"
        unended = {result.trial.hash for result in results if result.status == "interrupted"}
        found = checkpoints is not None and any(_of(path.stem, unended) for path in checkpoints.glob("*"))
        again = f"; the same command resumes from the checkpoints in {checkpoints}" if found else ""
        complain(f"interrupted; {ended} of {len(results)} seeds had ended{kept}{again}")
        raise typer.Exit(INTERRUPTED)
    if best is None:
        complain("every seed diverged; there is no layer to keep. Try a lower --lr")
        raise typer.Exit(1)


def _of(name: str, unended: Collection[str]) -> bool:
    """Whether a checkpoint is of one of these trials; bundles of lanes do not name theirs."""
    return name in unended or name.startswith("lanes-")


def _stop(given: StopAt | None, database: Database, tau: float) -> StopAt:
    """When a seed ends early; a fiber with more than 1/tau values never has probability tau on each of them."""
    from factrank.readouts import fiber_sizes  # noqa: PLC0415 - JAX takes a second to load

    most = int(fiber_sizes(database).max(initial=1))
    reachable = most * tau <= 1
    if given is None:
        return StopAt.recall_tau if reachable else StopAt.recall
    if given is StopAt.recall_tau and not reachable:
        note = f"a (key, query) has {most} values, which cannot all have probability {tau:g}: no seed will end early"
        complain(f"{note}; --stop recall can be reached")
    return given
