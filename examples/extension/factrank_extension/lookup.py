"""A family: tables with one logit for every key, query and value."""

from dataclasses import dataclass

import numpy as np

from factrank.experiments import Family, Work


@dataclass(frozen=True)
class LookupShape:
    """Options of a table; its sizes are those of the data."""

    start: float = 0.0


class LookupFamily(Family):
    """Lookup tables: the baseline that holds everything."""

    name = "lookup"
    models = {"lookup_table": LookupShape}  # noqa: RUF012 - what a family offers never changes

    def task(self, trial, data):
        """How a table is trained; JAX is loaded only now."""
        from factrank_extension.lookup_task import LookupTask  # noqa: PLC0415

        return LookupTask(trial, data)

    def work(self, trial, data):  # noqa: ARG002
        """One multiplication for each entry."""
        n_entries = int(np.prod(data.shape))
        return Work(parameters=n_entries, products=n_entries, numbers=n_entries)

    def from_parts(self, spec, sizes, parts):  # noqa: ARG002
        """The table of stored arrays."""
        from factrank.nn import require_same_parts, to_jax  # noqa: PLC0415
        from factrank_extension.lookup_task import LookupTable  # noqa: PLC0415

        require_same_parts({"logits": sizes}, parts)
        return LookupTable(**to_jax(parts))


LOOKUP = LookupFamily()
