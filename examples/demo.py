"""How big are the bundled tables of facts? Measure them, explain one, draw them all.

python examples/demo.py [FOLDER]
"""

import sys
from pathlib import Path

from rich.console import Console

import factrank
from factrank.report.charts import save_chart, sizes_chart
from factrank.report.terminal import measurement_table
from factrank.report.terms import terms_in_words


def main(folder: Path) -> None:
    """Measure the samples and a random table, print what was found, and draw it into a folder."""
    console = Console(highlight=False)
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

    folder.mkdir(parents=True, exist_ok=True)
    for suffix in ("html", "svg", "png"):
        save_chart(sizes_chart(measurements), folder / f"sizes.{suffix}")
    console.print(f"\nThe picture: [bold]{folder / 'sizes.html'}[/bold] (open it in a browser), also .svg and .png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
