"""Train the atlas: `python -m factrank.planning.atlas FOLDER [PART:WHOLE[:FIRST:LAST] ...]`.

Without parts the whole atlas, about a million layers: half an hour of one H200. A part may be cut into slices.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from factrank.planning.atlas.atlas_design import FULL
from factrank.planning.atlas.atlas_files import AtlasWriter
from factrank.planning.atlas.atlas_run import run_atlas, slices

SEED = 2026


def _slice(text: str) -> tuple[str, int, int, int]:
    part, whole, *ends = text.replace("_", " ").split(":")
    first, last = map(int, ends) if ends else (0, 10**9)
    return part, int(whole), first, last


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m factrank.planning.atlas", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("parts", nargs="*", type=_slice)
    parser.add_argument("--deadline", type=float, default=float("inf"), help="seconds after which nothing is begun")
    parser.add_argument("--processes", type=int, default=None)
    given = parser.parse_args(arguments)
    wanted = given.parts or [(part, n, 0, 10**9) for part, n in FULL]
    writer = AtlasWriter(given.folder)
    meter = run_atlas(slices(wanted, SEED), writer.add, deadline=given.deadline, processes=given.processes)
    writer.flush()
    seconds = meter.seconds
    lines = [
        f"{meter.rows:,} layers in {seconds:.1f} s: {seconds / max(meter.rows, 1) * 1e6:.0f} us a layer,",
        f"{seconds / max(meter.epoch_products, 1):.3g} s a product of an epoch",
        *(
            f"  {kind}: {n:,.0f} layers, {work:.3g} products, {busy:.1f} s on the device"
            for kind, (n, work, busy) in meter.by_class.items()
        ),
    ]
    print("\n".join(lines))  # noqa: T201 - the output of the command


if __name__ == "__main__":
    main()
