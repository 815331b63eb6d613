"""LayerShape: the four sizes that determine the capacity of an attention layer."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from factrank.nn import require_sizes


@dataclass(frozen=True)
class LayerShape:
    """Sizes of an `AttentionLayer`, the same for all heads.

    Query-key and value-output widths are independent, because the rank of the layer's tensor depends on d_vo but not on
    d_qk (Wong 2025, equation 9). A wider head is equivalent to several heads with equal attention.

    Arguments:
        d_model: Dimension of the embeddings.
        n_heads: Number of heads, H.
        d_qk: Dimension of queries and keys.
        d_vo: Dimension of values.

    >>> LayerShape(d_model=10, n_heads=1, d_qk=5, d_vo=5).parameters(20, 10, 20)
    700
    """

    d_model: int
    n_heads: int
    d_qk: int
    d_vo: int

    def __post_init__(self) -> None:
        require_sizes(asdict(self))

    def parameters_by_part(self, n_keys: int, n_queries: int, n_values: int) -> dict[str, int]:
        """Return the number of stored scalars of each part, including embeddings (which papers often exclude)."""
        require_sizes({"n_keys": n_keys, "n_queries": n_queries, "n_values": n_values}, least=0)
        query_key = self.n_heads * self.d_model * self.d_qk
        value_output = self.n_heads * self.d_model * self.d_vo
        return {
            "embedding": (n_keys + n_queries) * self.d_model,
            "w_q": query_key,
            "w_k": query_key,
            "w_v": value_output,
            "w_o": value_output,
            "unembedding": self.d_model * n_values,
        }

    def parameters(self, n_keys: int, n_queries: int, n_values: int) -> int:
        """Return the number of stored scalars: (K + Q + V) d_model + 2 H d_model (d_qk + d_vo)."""
        return sum(self.parameters_by_part(n_keys, n_queries, n_values).values())

    def in_words(self) -> str:
        """Return the sizes in one line.

        >>> LayerShape(4, 1, 2, 3).in_words()
        'layer: d_model 4, 1 head, d_qk 2, d_vo 3'
        """
        return f"layer: {', '.join(self.size_words())}"

    def size_words(self) -> list[str]:
        """Return each size with its name."""
        heads = f"{self.n_heads} head{'s' if self.n_heads > 1 else ''}"
        return [f"d_model {self.d_model}", heads, f"d_qk {self.d_qk}", f"d_vo {self.d_vo}"]
