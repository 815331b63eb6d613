"""Repeatable options with several words: `--set KEY QUERY VALUE --set KEY QUERY VALUE`.

typer can repeat only options with a single word, so the words of each are first joined into one JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from factrank.cli.support.commands import PlainCommand
from factrank.errors import InputError


def command_with(n_words: Mapping[str, int]) -> type[PlainCommand]:
    """Return a command class whose options of these names take that many words each; declare them as list[str]."""

    class WithRepeatedOptions(PlainCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """Parse the words of the command line."""
            return super().parse_args(ctx, list(joined(args, n_words)))

    return WithRepeatedOptions


def joined(words: Sequence[str], n_words: Mapping[str, int]) -> Iterator[str]:
    """Join the words that follow each of these options into one JSON text.

    >>> list(joined(["a", "--set", "b", "c", "--json"], {"--set": 2}))
    ['a', '--set', '["b", "c"]', '--json']
    """
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            yield from [word, *left]
            return
        name, equals, first = word.partition("=")
        if name not in n_words:
            yield word
            continue
        taken = ([first] if equals else []) + left
        if len(taken) < n_words[name]:
            raise InputError(f"{name} takes {n_words[name]} words; got {len(taken)}")
        yield from (name, json.dumps(taken[: n_words[name]]))
        left = taken[n_words[name] :]


def separate(texts: Sequence[str] | None) -> list[list[str]]:
    """Return the words of each occurrence of an option."""
    return [json.loads(text) for text in texts or ()]
