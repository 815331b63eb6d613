"""Split the arrays of a model into trained and frozen ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax

from factrank.errors import InputError
from factrank.experiments.task import Tree

Path = tuple[Any, ...]


def split(model: eqx.Module, frozen: Sequence[str]) -> tuple[Tree, Tree]:
    """Return the trained arrays and all other arrays; `eqx.combine` reassembles the model.

    A name in `frozen` freezes every array below it. It is a field such as `embedding` or `w_q`, anywhere in the model,
    or a path such as `blocks.0.mlp`.

    Raises:
        InputError: If a name matches no part of the model.
    """
    named = [_names(path) for path, _ in jax.tree_util.tree_leaves_with_path(model)]
    for part in frozen:
        if not any(_under(part, names) for names in named):
            known = sorted({name for names in named for name in names if not name.isdigit()})
            raise InputError(f"cannot freeze {part!r}; the parts of the model are {', '.join(known)}")
    trained = jax.tree_util.tree_map_with_path(
        lambda path, leaf: eqx.is_inexact_array(leaf) and not any(_under(part, _names(path)) for part in frozen), model
    )
    return eqx.partition(model, trained)


def _names(path: Path) -> list[str]:
    return [str(getattr(entry, "name", getattr(entry, "idx", getattr(entry, "key", "")))) for entry in path]


def _under(part: str, names: list[str]) -> bool:
    wanted = part.split(".")
    return any(names[at : at + len(wanted)] == wanted for at in range(len(names)))
