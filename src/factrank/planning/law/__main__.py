"""Fit the law to the files of the atlas: `python -m factrank.planning.law FOLDER [--out law.json]`.

Prints its error and the coverage of its intervals on rows that the fit never saw.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from factrank.planning.atlas import read_rows
from factrank.planning.law.making import make_law, report_of


def main() -> None:
    """Read the arguments, fit and report."""
    parser = argparse.ArgumentParser(prog="python -m factrank.planning.law", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("law.json"))
    given = parser.parse_args()
    rows = read_rows(sorted(given.folder.rglob("*.parquet")))
    made = make_law(rows)
    parts = [f"{json.dumps(name)}: {json.dumps(part)}" for name, part in made.to_plain().items()]
    given.out.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    print("\n".join(report_of(made, rows)))  # noqa: T201 - the output of the command


if __name__ == "__main__":
    main()
