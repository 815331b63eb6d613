"""Bundled text and images, as inputs of models.

The text is a public-domain passage (`data/SOURCES.md`) with a vocabulary of words, which requires no tokeniser. The
images are the 1,797 digits of 8 x 8 pixels in scikit-learn (extra `audit`; UCI repository: Alpaydin and Kaynak 1998).
"""

from __future__ import annotations

import re
from importlib import resources

import numpy as np
from jaxtyping import Float, Int, Integer

from factrank.errors import InputError

SPECIAL_WORDS = ("[PAD]", "[CLS]")
"""First words of every vocabulary."""
WORD = re.compile(r"[A-Za-z0-9]+(?:['’][A-Za-z]+)*|[^\sA-Za-z0-9]+")


def passage() -> str:
    """Return the bundled text.

    >>> passage()[:30]
    'Four score and seven years ago'
    """
    return resources.files(__package__).joinpath("data", "gettysburg.txt").read_text(encoding="utf-8")


def words_of(text: str) -> list[str]:
    """Split a text into lower-case words and punctuation.

    >>> words_of("We can not hallow -- this ground.")
    ['we', 'can', 'not', 'hallow', '--', 'this', 'ground', '.']
    """
    return WORD.findall(text.lower())


def word_ids(text: str) -> tuple[Int[np.ndarray, " length"], tuple[str, ...]]:
    """Return the words of a text as numbers, and the vocabulary: special words, then words by first occurrence."""
    words = words_of(text)
    vocabulary = (*SPECIAL_WORDS, *dict.fromkeys(words))
    number = {word: i for i, word in enumerate(vocabulary)}
    return np.array([number[word] for word in words], dtype=np.int64), vocabulary


def windows(ids: Integer[np.ndarray, " length"], size: int, most: int) -> Int[np.ndarray, "examples size"]:
    """Return up to `most` windows of `size` consecutive tokens, spread evenly over the text.

    >>> windows(np.arange(6), 3, most=3)
    array([[0, 1, 2],
           [1, 2, 3],
           [3, 4, 5]])
    """
    if size < 1 or most < 1:
        raise InputError(f"expected at least one example of at least one token; got {most} of {size}")
    if len(ids) < size:
        raise InputError(f"the text has {len(ids)} tokens; a context needs {size}")
    starts = np.unique(np.linspace(0, len(ids) - size, num=min(most, len(ids) - size + 1)).astype(np.int64))
    places = starts[:, None] + np.arange(size)
    return np.asarray(ids[places], dtype=np.int64)


def digit_images(most: int | None = None) -> Float[np.ndarray, "images 1 8 8"]:
    """Return the first `most` digits of scikit-learn as images with one channel and pixels between 0 and 1."""
    try:
        from sklearn.datasets import load_digits  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError("the digits need scikit-learn: pip install 'factrank[audit]'") from None
    images = np.asarray(load_digits().images, dtype=np.float64) / 16
    return images[:most, None]
