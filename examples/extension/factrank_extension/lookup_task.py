"""How lookup tables are trained: what lanes ask of a task."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class LookupTable(eqx.Module):
    """One logit for every key, query and value."""

    logits: jax.Array


@dataclass(frozen=True, eq=False)
class LookupTask:
    """A trial on a database: all facts in one batch."""

    trial: Any
    database: Any
    frozen = ()

    @property
    def signature(self):
        """Tables of one size are trained side by side."""
        return "lookup", self.database.shape, len(self.database)

    def init(self, rng):
        """The table before training."""
        start = rng.standard_normal(self.database.shape) * self.trial.model.start
        return LookupTable(start.astype(np.float32))

    def data(self):
        """The codes of all facts."""
        return dict(zip(("keys", "queries", "values"), self.database.triples.T.astype(np.int32), strict=True))

    def batches(self, data, key, epoch):  # noqa: ARG002
        """One step an epoch."""
        return jnp.zeros((1, 0))

    def loss(self, model, data, batch):  # noqa: ARG002
        """The cross-entropy over all facts."""
        return self.check(model, data)["loss"]

    def check(self, model, data):
        """Loss and recall."""
        logits = model.logits[data["keys"], data["queries"]]
        right = jnp.take_along_axis(logits, data["values"][:, None], axis=1)[:, 0]
        loss = (jax.nn.logsumexp(logits, axis=1) - right).mean()
        return {"loss": loss, "recall": (logits.argmax(axis=1) == data["values"]).mean()}

    measure = check

    def exact(self, numbers):
        """The numbers as they are."""
        return numbers

    def finish(self, model, numbers):  # noqa: ARG002
        """The trained table, without further numbers."""
        return model, {}, []
