"""`ShownModel`: models with a short `repr`, a display in notebooks and pictures."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax

from factrank.display import Drawn
from factrank.errors import FactrankError


class ShownModel(Drawn):
    """Mixin of models: their `repr` has sizes instead of arrays."""

    def __repr__(self) -> str:
        try:
            return f"{type(self).__name__}({', '.join(sizes_of(self))})"
        except (AttributeError, TypeError, IndexError, ValueError, FactrankError):
            return str(eqx.tree_pformat(self))  # some parts are no arrays, as after eqx.partition


def sizes_of(model: Any) -> list[str]:
    """Return the sizes of a model in words: its shape, the pairs that it reads, parameters and types of its weights."""
    words = [repr(getattr(model, name)) for name in ("shape", "layout") if hasattr(model, name)]
    if hasattr(model, "n_keys"):
        words.append(f"{model.n_keys:,} keys x {model.n_queries:,} queries -> {model.n_values:,} values")
    weights = [leaf for leaf in jax.tree.leaves(model) if leaf.dtype.kind not in "iub"]
    return [
        *words,
        f"{sum(leaf.size for leaf in weights):,} parameters",
        *sorted({leaf.dtype.name for leaf in weights}),
    ]
