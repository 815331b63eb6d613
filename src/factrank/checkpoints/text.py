"""Tokenise text with the `tokenizer.json` of a checkpoint, using the library `tokenizers` (extra `audit`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from factrank.errors import InputError
from factrank.host import require_file

TOKENISER = "tokenizer.json"


def token_ids(text: str, folder: Path) -> Int[np.ndarray, " length"]:
    """Return the token numbers of a text, without special tokens."""
    ids = _tokeniser(folder).encode(text, add_special_tokens=False).ids
    return np.array(ids, dtype=np.int64)


def first_token(folder: Path) -> int:
    """Return the token number of [CLS]."""
    number = _tokeniser(folder).token_to_id("[CLS]")
    if number is None:
        raise InputError(f"{folder / TOKENISER}: has no [CLS] token, but contexts of BERT start with it")
    return int(number)


def _tokeniser(folder: Path) -> Any:
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError("reading text needs the library tokenizers: pip install 'factrank[audit]'") from None
    path = folder / TOKENISER
    require_file(path)
    try:
        tokeniser = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises bare exceptions
        raise InputError(f"{path}: not a readable tokeniser: {error}") from None
    tokeniser.no_padding()
    tokeniser.no_truncation()
    return tokeniser
