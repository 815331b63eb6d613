"""How big are tables of facts, and what does a layer hold? Measure, train, ask, construct; rerun a published figure.

python examples/demo.py [FOLDER]
"""

import sys
from pathlib import Path

from rich.console import Console

import factrank
from factrank import (
    Given,
    Hallucinations,
    LayerShape,
    Store,
    TauRecall,
    Training,
    Trial,
    answer,
    best_of,
    diagnose,
    run_study,
    train_many,
)
from factrank.experiments import TerminalMeter
from factrank.experiments.study import results_of
from factrank.families.attention import SavedLayer
from factrank.families.attention.circuits import attribute_facts
from factrank.readouts import threshold_tensor
from factrank.report import (
    answer_tables,
    constructed_table,
    measurement_table,
    recall_tables,
    save_chart,
    sizes_chart,
    terms_in_words,
    trained_table,
)
from factrank.report.study import claims_table, write_report
from factrank.studies import study

SHAPE = LayerShape(d_model=16, n_heads=2, d_qk=8, d_vo=8)
TAU = 0.95


def main(folder: Path) -> None:
    """Measure tables and draw them into a folder; train a layer, save it there, and ask it."""
    console = Console(highlight=False)
    folder.mkdir(parents=True, exist_ok=True)
    measure(console, folder)
    console.rule("What does a layer hold?")
    ask(console, train(console, folder / "elements.safetensors"))
    console.rule("The same facts written in, and proved")
    construct(console, folder / "constructed.safetensors")
    console.rule("A published figure, run again")
    rerun(console, folder / "store")
    console.rule("All of it in a browser")
    explore(console, folder)


def explore(console: Console, folder: Path) -> None:
    """The page of the trained layer, in which everything can be asked and changed."""
    page = factrank.explore(factrank.load_layer(folder / "elements.safetensors"), title="elements", budget=1.0)
    path = page.save(folder / "explorer.html")
    console.print(f"The explorer: [bold]{path}[/bold] (open it in a browser)", soft_wrap=True)


def rerun(console: Console, folder: Path) -> None:
    """VO against QK (Wong 2025, Figure 4) in its quick size: trials into a store, claims judged, one report."""
    chosen, store = study("vo-against-qk"), Store(folder)
    console.print(f"[bold]{chosen.title}[/bold] ({chosen.source.figure} of {chosen.source.paper})")
    with TerminalMeter() as meter:
        summary = run_study(chosen, "quick", store, meter=meter)
    console.print(f"{summary.n_ended} trials run now, {summary.n_before} were stored before, in {folder}\n")
    found = results_of(chosen, "quick", store.tables())
    console.print(claims_table(found))
    command = f"factrank study run {chosen.name} --store {folder}"
    path = write_report(found, store, command)
    console.print(f"The same with 10 seeds and more shapes: [bold]{command} --full[/bold]")
    console.print(f"The report: [bold]{path}[/bold] (open it in a browser)")


def measure(console: Console, folder: Path) -> None:
    """The sizes of the samples and of a random table, why one is what it is, and a picture of all."""
    databases = {f"sample:{name}": factrank.sample(name) for name in ("astrid", "elements", "countries")}
    databases["random 12 x 6 x 12"] = factrank.generate("uniform", n_keys=12, n_queries=6, n_values=12, seed=0)
    measurements = []
    for name, database in databases.items():
        with Console(stderr=True).status(f"measuring {name}"):
            measurements.append((name, factrank.measure(database)))
        console.print(measurement_table(*measurements[-1]), "")

    console.print("[bold]Why sample:astrid has rank 5[/bold]: its 8 facts are the sum of 5 products")
    witness = measurements[0][1].rank.upper.witness
    for line in terms_in_words(witness(), databases["sample:astrid"]):
        console.print(f"  {line}", markup=False)

    for suffix in ("html", "svg", "png"):
        save_chart(sizes_chart(measurements), folder / f"sizes.{suffix}")
    console.print(f"\nThe picture: [bold]{folder / 'sizes.html'}[/bold] (open it in a browser), also .svg and .png\n")


def train(console: Console, path: Path) -> SavedLayer:
    """Four seeds at once on sample:elements; the best layer is saved."""
    database = factrank.sample("elements")
    training, measures = Training(epochs=400, stop="recall_tau"), (TauRecall((TAU,)), Hallucinations())
    trials = [Trial(Given(database.fingerprint), SHAPE, training, measures, seed=seed) for seed in range(4)]
    with TerminalMeter() as meter:
        results = train_many(trials, databases=[database], meter=meter)
    best = best_of(results)
    if best is None:
        sys.exit("no seed ended with a sound layer")
    console.print(trained_table("sample:elements", database, results, best))
    factrank.save_layer(path, best.model, database)
    console.print(f"The layer: [bold]{path}[/bold]\n")
    return factrank.load_layer(path)


def construct(console: Console, path: Path) -> None:
    """The smallest layer in closed form that holds sample:elements, with its certificate."""
    found = factrank.construct(factrank.sample("elements"))
    console.print(constructed_table("sample:elements", found))
    found.save(path)
    console.print(f"The layer: [bold]{path}[/bold]\n")


def ask(console: Console, saved: SavedLayer) -> None:
    """What the layer recalls, one answer, and one that it made up."""
    layer, database = saved.layer, saved.database
    console.print(recall_tables(diagnose(layer, database, TAU), attribute_facts(layer, database)), "")
    console.print(answer_tables(answer(saved, "Gold", "symbol", TAU)), "")
    confident = threshold_tensor(layer, TAU).coordinates.tolist()
    questions = ((database.keys[key], database.queries[query]) for key, query, _ in confident)
    made_up = next((question for question in questions if not database.fiber(*question)), None)
    if made_up is not None:
        console.print(answer_tables(answer(saved, *made_up, TAU)))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
