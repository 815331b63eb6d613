"""FactualRecallShape, FactualRecallOneHotShape: one-layer models that read a sequence and answer at its last token.

A sequence has T = `length` tokens: one subject (key), one relation (query), T - 3 noise tokens and, last, the end token
(Nichani, Lee and Bietti 2025, arXiv 2412.06538). The tokens of a model are in the order keys, queries, noise, end, and
then, where it also copies, cues and payloads; its outputs are the values and then the payloads.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from factrank.errors import InputError
from factrank.nn import require_sizes

SHORTEST = 3
"""A subject, a relation and the end token."""

BATCH_SIZE = 1024
"""Sequences of a batch where a trial does not say how many."""


@dataclass(frozen=True)
class FactualRecallShape:
    """The sizes of a one-layer transformer that reads sequences.

    `mlp_width` 0 means no MLP. `length` is T; `n_noise` the number of noise tokens, as many as keys and queries
    together unless given. With `linear` attention a weight is its score, not a softmax. Embeddings and unembeddings are
    fixed unless `trained_embeddings`.

    With `copy_groups` G and `copy_size` C the model also learns to copy in context: there are G cues and G C payloads,
    C of each group; a copying sequence has one payload of every group, noise, and a cue g at its end, and its answer
    is the payload of group g. It has T tokens too, so that T is at least G + 1.

    >>> FactualRecallShape(d_model=32, n_heads=8, d_qk=4, d_vo=4, mlp_width=64).counted_parameters
    8192
    """

    d_model: int
    n_heads: int
    d_qk: int
    d_vo: int
    mlp_width: int = 0
    length: int = 32
    n_noise: int | None = None
    linear: bool = False
    trained_embeddings: bool = False
    copy_groups: int = 0
    copy_size: int = 0

    def __post_init__(self) -> None:
        names = "d_model", "n_heads", "d_qk", "d_vo"
        require_sizes({name: getattr(self, name) for name in names})
        require_sizes({name: getattr(self, name) for name in ("mlp_width", "copy_groups", "copy_size")}, least=0)
        _require_sequence(self.length, self.n_noise)
        _require_flags(linear=self.linear, trained_embeddings=self.trained_embeddings)
        if bool(self.copy_groups) != bool(self.copy_size):
            given = f"{self.copy_groups} and {self.copy_size}"
            raise InputError(f"copy_groups and copy_size must be both 0 or both at least 1; got {given}")
        if self.copy_groups >= self.length:
            raise InputError(
                f"a copying sequence has a payload of every group and a cue: length must be at least "
                f"copy_groups + 1 = {self.copy_groups + 1}; got {self.length}"
            )

    @property
    def counted_parameters(self) -> int:
        """What the paper counts, without embeddings and biases: 2 H d (d_qk + d_vo) + 2 m d."""
        return 2 * self.d_model * (self.n_heads * (self.d_qk + self.d_vo) + self.mlp_width)

    def noise_tokens(self, n_keys: int, n_queries: int) -> int:
        """The number of noise tokens."""
        return n_keys + n_queries if self.n_noise is None else self.n_noise

    def tokens(self, n_keys: int, n_queries: int) -> int:
        """All tokens: keys, queries, noise, the end, cues, payloads."""
        fact_tokens = n_keys + n_queries + self.noise_tokens(n_keys, n_queries) + 1
        return fact_tokens + self.copy_groups * (1 + self.copy_size)

    def outputs(self, n_values: int) -> int:
        """All outputs: values, payloads."""
        return n_values + self.copy_groups * self.copy_size

    def parameters_by_part(self, n_keys: int, n_queries: int, n_values: int) -> dict[str, int]:
        """Stored scalars of each part, for a vocabulary of these sizes."""
        require_sizes({"n_keys": n_keys, "n_queries": n_queries, "n_values": n_values}, least=0)
        query_key, value_output = (self.n_heads * self.d_model * each for each in (self.d_qk, self.d_vo))
        return {
            "embedding": self.tokens(n_keys, n_queries) * self.d_model,
            "w_q": query_key,
            "w_k": query_key,
            "w_v": value_output,
            "w_o": value_output,
            "w_in": self.d_model * self.mlp_width,
            "b_in": self.mlp_width,
            "w_out": self.mlp_width * self.d_model,
            "unembedding": self.d_model * self.outputs(n_values),
        }

    def parameters(self, n_keys: int, n_queries: int, n_values: int) -> int:
        """All stored scalars."""
        return sum(self.parameters_by_part(n_keys, n_queries, n_values).values())


@dataclass(frozen=True)
class FactualRecallOneHotShape:
    """The same with one-hot embeddings: what is trained is a table of scores and one of values.

    Head h gives token v the score s[h, v] and adds the row values[h, v] to the outputs. There is nothing else to choose
    but the number of heads, `linear` or softmax attention, the sequences, and `start_scale`: before training all
    entries are equal to it or, with several heads, which would stay equal, normal with this standard deviation.

    >>> FactualRecallOneHotShape(n_noise=20).parameters(16, 4, 32)
    1353
    """

    n_heads: int = 1
    linear: bool = True
    length: int = 32
    n_noise: int | None = None
    start_scale: float = 1e-5

    def __post_init__(self) -> None:
        require_sizes({"n_heads": self.n_heads})
        _require_sequence(self.length, self.n_noise)
        _require_flags(linear=self.linear)
        scale: object = self.start_scale
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not isfinite(scale) or scale < 0:
            raise InputError(f"start_scale must be a finite number, 0 or more; got {scale!r}")
        object.__setattr__(self, "start_scale", float(scale) + 0.0)  # equal shapes have equal hashes

    def noise_tokens(self, n_keys: int, n_queries: int) -> int:
        """The number of noise tokens."""
        return n_keys + n_queries if self.n_noise is None else self.n_noise

    def tokens(self, n_keys: int, n_queries: int) -> int:
        """All tokens: keys, queries, noise, the end."""
        return n_keys + n_queries + self.noise_tokens(n_keys, n_queries) + 1

    def parameters_by_part(self, n_keys: int, n_queries: int, n_values: int) -> dict[str, int]:
        """Stored scalars of each part, for a vocabulary of these sizes."""
        require_sizes({"n_keys": n_keys, "n_queries": n_queries, "n_values": n_values}, least=0)
        scores = self.n_heads * self.tokens(n_keys, n_queries)
        return {"scores": scores, "values": scores * n_values}

    def parameters(self, n_keys: int, n_queries: int, n_values: int) -> int:
        """All stored scalars, which is what the paper counts too: H tokens (1 + outputs)."""
        return sum(self.parameters_by_part(n_keys, n_queries, n_values).values())


def _require_sequence(length: int, n_noise: int | None) -> None:
    require_sizes({"length": length}, least=SHORTEST)
    if n_noise is not None:
        require_sizes({"n_noise": n_noise})


def _require_flags(**flags: object) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise InputError(f"{name} must be True or False; got {flag!r}")
