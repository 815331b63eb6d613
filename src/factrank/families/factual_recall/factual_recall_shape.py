"""Shapes of one-layer models that read a sequence and answer at its last token.

A sequence has T = `length` tokens: one subject (key), one relation (query), T - 3 noise tokens and finally the end
token (Nichani, Lee and Bietti 2025, arXiv 2412.06538). The tokens of a model are ordered keys, queries, noise, end and,
if it copies, cues and payloads. Its outputs are values, then payloads.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, prod

from factrank.errors import InputError
from factrank.nn import require_sizes

SHORTEST = 3
"""Length of a sequence without noise: a subject, a relation and the end token."""

BATCH_SIZE = 1024
"""Default number of sequences per batch."""


@dataclass(frozen=True)
class FactualRecallShape:
    """Sizes of a one-layer transformer that reads sequences.

    With `copy_groups` G and `copy_size` C, the model also learns in-context copying: there are G cues and C payloads
    per group. A copying sequence has one payload from each group, noise, and a final cue g; its answer is the payload
    from group g. It has T tokens as well, so T must be at least G + 1.

    Arguments:
        d_model: Dimension of the embeddings.
        n_heads: Number of heads, H.
        d_qk: Dimension of queries and keys.
        d_vo: Dimension of values.
        mlp_width: Number of hidden units, 0 for no MLP.
        length: Number of tokens in a sequence, T.
        n_noise: Number of noise tokens in the vocabulary; by default the number of keys plus queries.
        linear: Whether attention weights are the scores themselves instead of a softmax.
        trained_embeddings: Whether embeddings and unembeddings are trained; they are fixed by default.
        copy_groups: Number of groups of payloads, G.
        copy_size: Number of payloads per group, C.

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
                f"length must be at least copy_groups + 1 = {self.copy_groups + 1}, to fit a payload of every group "
                f"and a cue; got {self.length}"
            )

    @property
    def counted_parameters(self) -> int:
        """Number of parameters as counted in the paper, without embeddings and biases: 2 H d (d_qk + d_vo) + 2 m d."""
        return 2 * self.d_model * (self.n_heads * (self.d_qk + self.d_vo) + self.mlp_width)

    def noise_tokens(self, n_keys: int, n_queries: int) -> int:
        """Return the number of noise tokens."""
        return n_keys + n_queries if self.n_noise is None else self.n_noise

    def tokens(self, n_keys: int, n_queries: int) -> int:
        """Return the number of tokens: keys, queries, noise, end, cues and payloads."""
        fact_tokens = n_keys + n_queries + self.noise_tokens(n_keys, n_queries) + 1
        return fact_tokens + self.copy_groups * (1 + self.copy_size)

    def outputs(self, n_values: int) -> int:
        """Return the number of outputs: values and payloads."""
        return n_values + self.copy_groups * self.copy_size

    def part_sizes(self, n_keys: int, n_queries: int, n_values: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of every part, for a vocabulary of these sizes."""
        require_sizes({"n_keys": n_keys, "n_queries": n_queries, "n_values": n_values}, least=0)
        heads, d_model, width = self.n_heads, self.d_model, self.mlp_width
        return {
            "embedding": (self.tokens(n_keys, n_queries), d_model),
            "w_q": (heads, d_model, self.d_qk),
            "w_k": (heads, d_model, self.d_qk),
            "w_v": (heads, d_model, self.d_vo),
            "w_o": (heads, self.d_vo, d_model),
            "w_in": (d_model, width),
            "b_in": (width,),
            "w_out": (width, d_model),
            "unembedding": (d_model, self.outputs(n_values)),
        }

    def parameters_by_part(self, n_keys: int, n_queries: int, n_values: int) -> dict[str, int]:
        """Return the number of stored scalars of each part."""
        return {name: prod(size) for name, size in self.part_sizes(n_keys, n_queries, n_values).items()}

    def parameters(self, n_keys: int, n_queries: int, n_values: int) -> int:
        """Return the number of stored scalars."""
        return sum(self.parameters_by_part(n_keys, n_queries, n_values).values())


@dataclass(frozen=True)
class FactualRecallOneHotShape:
    """Sizes of a model with one-hot embeddings, whose weights are a table of scores and a table of values.

    Head h gives token v the score s[h, v] and adds the row values[h, v] to the outputs.

    Arguments:
        n_heads: Number of heads, H.
        linear: Whether attention weights are the scores themselves instead of a softmax.
        length: Number of tokens in a sequence, T.
        n_noise: Number of noise tokens in the vocabulary; by default the number of keys plus queries.
        start_scale: Initial value of all entries. With several heads, which would remain equal, the standard deviation
            of normal initial values instead.

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
        object.__setattr__(self, "start_scale", float(scale) + 0.0)  # equal shapes must have equal hashes

    def noise_tokens(self, n_keys: int, n_queries: int) -> int:
        """Return the number of noise tokens."""
        return n_keys + n_queries if self.n_noise is None else self.n_noise

    def tokens(self, n_keys: int, n_queries: int) -> int:
        """Return the number of tokens: keys, queries, noise and end."""
        return n_keys + n_queries + self.noise_tokens(n_keys, n_queries) + 1

    def part_sizes(self, n_keys: int, n_queries: int, n_values: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of every part, for a vocabulary of these sizes."""
        require_sizes({"n_keys": n_keys, "n_queries": n_queries, "n_values": n_values}, least=0)
        scores = self.n_heads, self.tokens(n_keys, n_queries)
        return {"scores": scores, "values": (*scores, n_values)}

    def parameters_by_part(self, n_keys: int, n_queries: int, n_values: int) -> dict[str, int]:
        """Return the number of stored scalars of each part."""
        return {name: prod(size) for name, size in self.part_sizes(n_keys, n_queries, n_values).items()}

    def parameters(self, n_keys: int, n_queries: int, n_values: int) -> int:
        """Return the number of stored scalars, as counted in the paper: H tokens (1 + outputs)."""
        return sum(self.parameters_by_part(n_keys, n_queries, n_values).values())


def _require_sequence(length: int, n_noise: int | None) -> None:
    require_sizes({"length": length}, least=SHORTEST)
    if n_noise is not None:
        require_sizes({"n_noise": n_noise})


def _require_flags(**flags: object) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise InputError(f"{name} must be True or False; got {flag!r}")
