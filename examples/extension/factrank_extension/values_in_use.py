"""A bound: the rank of a functional table is at least the number of its values.

The value slices of a functional table have disjoint supports, so they are independent.
"""

from factrank.tensors.bounds import Bound, BoundMethod, Stage, functional


def _values_in_use(bracket):
    return [Bound(bracket.tensor.shape[2], "values in use")]


VALUES_IN_USE = BoundMethod(
    name="values in use", of="rank", side="lower", stage=Stage.PROVE, needs=(functional,), run=_values_in_use
)
