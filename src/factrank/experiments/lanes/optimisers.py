"""Optax optimisers by name."""

from __future__ import annotations

import inspect

import optax
from jaxtyping import Array, Float

from factrank.errors import InputError
from factrank.experiments.specs import Optimiser

OPTIMISERS = (
    "adabelief",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamaxw",
    "adamw",
    "adan",
    "amsgrad",
    "lamb",
    "lars",
    "lion",
    "nadam",
    "nadamw",
    "novograd",
    "radam",
    "rmsprop",
    "sgd",
    "sign_sgd",
    "sm3",
    "yogi",
)
"""Optimisers that only need a learning rate and gradients; others also need the loss, or their own seed."""


def build_optimiser(
    optimiser: Optimiser, learning_rate: Float[Array, ""] | float
) -> optax.GradientTransformationExtraArgs:
    """Return an optax optimiser with this learning rate, which may be traced.

    Raises:
        InputError: If the name or an option is unknown or invalid.
    """
    if optimiser.name not in OPTIMISERS:
        raise InputError(f"unknown optimiser {optimiser.name!r}; expected one of {', '.join(OPTIMISERS)}")
    make = getattr(optax, optimiser.name)
    known = [name for name in inspect.signature(make).parameters if name != "learning_rate"]
    unknown = [name for name, _ in optimiser.options if name not in known]
    if unknown:
        raise InputError(f"{optimiser.name}: unknown {', '.join(unknown)}; it takes {', '.join(known)}")
    try:
        return optax.with_extra_args_support(make(learning_rate, **dict(optimiser.options)))
    except (TypeError, ValueError) as error:
        raise InputError(f"{optimiser.name}: invalid options {dict(optimiser.options)}: {error}") from None
