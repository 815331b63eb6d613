"""Test the needed sizes on searches that nothing was fitted to: `python reproductions/atlas/needed_coverage.py FOLDER`.

Prints the coverage of the intervals by recall and number of heads, for the kinds of tables that `plan` distinguishes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from factrank.planning.atlas import read_rows
from factrank.planning.law import atlas_law
from factrank.planning.law.making import coverage_lines, of_kinds
from factrank.planning.law.needed import searched


def main():
    """Read the searches and print the coverage."""
    rows = read_rows(sorted(Path(sys.argv[1]).rglob("*.parquet")))
    for fraction, found in searched(rows).items():
        print("\n".join(coverage_lines(atlas_law(), fraction, of_kinds(found))))


if __name__ == "__main__":
    main()
