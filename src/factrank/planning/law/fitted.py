"""The law as it was fitted to the atlas, with its intervals: `law.json` next to this module."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

from factrank.planning.law.calibration import Bins, Calibration
from factrank.planning.law.known_sizes import KnownSizes
from factrank.planning.law.law import CapacityLaw
from factrank.planning.law.needed import Needed
from factrank.planning.law.update_law import UpdateLaw

FILE = "law.json"


@dataclass(frozen=True)
class AtlasLaw:
    """The law of the atlas with everything that was calibrated on it.

    Arguments:
        law: the expected recall.
        calibration: intervals of the recall.
        needed: by recall, the parameters that it needs.
        known: sizes of the layers of the atlas, by kind of table, of its low-rank updates and of its searches.
        updates: the law of low-rank updates.
    """

    law: CapacityLaw
    calibration: Calibration
    needed: Mapping[float, Needed]
    known: Mapping[str, KnownSizes]
    updates: UpdateLaw

    def to_plain(self) -> dict[str, Any]:
        """Return the law as JSON has it."""
        return {
            "constants": dict(self.law.constants),
            "kinds": {name: list(kappa) for name, kappa in self.law.kinds.items()},
            "calibration": {name: asdict(bins) for name, bins in self.calibration.groups.items()},
            "needed": {str(fraction): asdict(one) for fraction, one in self.needed.items()},
            "known": {name: sizes.to_plain() for name, sizes in self.known.items()},
            "updates": asdict(self.updates),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> AtlasLaw:
        """Return the inverse of `to_plain`."""
        groups = {
            name: Bins(**{field: tuple(numbers) for field, numbers in bins.items()})
            for name, bins in plain["calibration"].items()
        }
        needed = {
            float(fraction): Needed(
                one["recall"],
                tuple(one["weights"]),
                {int(heads): tuple(errors) for heads, errors in one["errors"].items()},
            )
            for fraction, one in plain["needed"].items()
        }
        kinds = {name: tuple(kappa) for name, kappa in plain["kinds"].items()}
        known = {name: KnownSizes.from_plain(sizes) for name, sizes in plain["known"].items()}
        updates = UpdateLaw(plain["updates"]["sharpness"], tuple(plain["updates"]["weights"]))
        return cls(CapacityLaw(plain["constants"], kinds), Calibration(groups), needed, known, updates)


@cache
def atlas_law() -> AtlasLaw:
    """Return the law that comes with the package."""
    return AtlasLaw.from_plain(json.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")))
