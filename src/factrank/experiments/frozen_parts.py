"""Which arrays of a model are trained, and which parts are frozen by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax

from factrank.errors import InputError
from factrank.experiments.task import Tree

Path = tuple[Any, ...]


def split(model: eqx.Module, frozen: Sequence[str]) -> tuple[Tree, Tree]:
    """The real arrays that are trained, and all other arrays; `eqx.combine` puts them together again.

    A name freezes every array under it: a field such as `embedding` or `w_q` wherever it occurs, or a path of names
    such as `blocks.0.mlp`.
    """
    named = [_names(path) for path, _ in jax.tree_util.tree_leaves_with_path(model)]
    for part in frozen:
        if not any(_under(part, names) for names in named):
            known = sorted({name for names in named for name in names if not name.isdigit()})
            raise InputError(f"there is no part {part!r} to freeze; there are {', '.join(known)}")
    trained = jax.tree_util.tree_map_with_path(
        lambda path, leaf: eqx.is_inexact_array(leaf) and not any(_under(part, _names(path)) for part in frozen), model
    )
    return eqx.partition(model, trained)


def _names(path: Path) -> list[str]:
    return [str(getattr(entry, "name", getattr(entry, "idx", getattr(entry, "key", "")))) for entry in path]


def _under(part: str, names: list[str]) -> bool:
    wanted = part.split(".")
    return any(names[at : at + len(wanted)] == wanted for at in range(len(names)))
