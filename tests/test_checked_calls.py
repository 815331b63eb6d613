"""The type checks of the suite refuse what jaxtyping's own refuse, and keep the functions what they are."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import jaxtyping
import numpy as np
import pytest
from beartype import beartype
from jaxtyping import Float, TypeCheckError

from checked_calls import check_calls, in_full
from factrank.databases.database import Database

Column = Float[np.ndarray, " n"]
DECORATORS = [partial(check_calls, typechecker=beartype), partial(in_full, typechecker=beartype)]


@pytest.mark.parametrize("decorate", DECORATORS, ids=["ours", "jaxtyping"])
def test_wrong_arguments_and_results_are_refused(decorate):
    @decorate
    def doubled(number: int, times: "int" = 2, *, name: str = "") -> int:
        """Multiply."""
        return number * times if name != "text" else "text"

    @decorate
    def numbers(n: int) -> Iterator[int]:
        yield from range(n)

    @decorate
    def added(first: Column, second: Column) -> Column:
        return first + second

    @decorate
    def applied(function: Callable[[Column], Column], column: tuple[Column, ...]) -> list[Column]:
        return [function(one) for one in column]

    @decorate
    @dataclass(frozen=True)
    class Size:
        n: int

    @decorate
    @dataclass(frozen=True)
    class Named(Size):
        name: str = ""

    assert (doubled(3), doubled(3, times=4), list(numbers(2)), Named(3, "x").n) == (6, 12, [0, 1], 3)
    assert (doubled.__name__, doubled.__doc__, doubled.__module__) == ("doubled", "Multiply.", __name__)
    assert list(inspect.signature(doubled).parameters) == ["number", "times", "name"]
    assert np.array_equal(added(np.ones(2), np.ones(2)), [2, 2])
    for wrong in (
        partial(doubled, "3"),
        partial(doubled, 3, times="4"),
        partial(doubled, 3, name=None),
        partial(doubled, 3, name="text"),  # the result
        partial(numbers, "2"),
        partial(added, np.ones(2), np.ones(3)),  # axes that disagree
        partial(added, np.ones(2), np.ones(2, int)),
        partial(applied, np.sqrt, (np.ones((2, 2)),)),
        partial(Size, "3"),
        partial(Named, "3"),
        partial(Named, 3, 4),
    ):
        with pytest.raises(TypeCheckError):
            wrong()


def test_the_package_is_checked_so():
    assert jaxtyping.jaxtyped is check_calls
    with pytest.raises(TypeCheckError):
        Database.from_facts(3)
