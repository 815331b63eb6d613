"""Options of several words that may be given many times: `--set KEY QUERY VALUE --set KEY QUERY VALUE`.

typer repeats options of one word only. So the words of each are joined to one, a JSON text, before typer reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typer.core import TyperCommand

from factrank.errors import InputError


def command_with(n_words: Mapping[str, int]) -> type[TyperCommand]:
    """A class of commands whose options of these names take so many words, each time; they are of type list[str]."""

    class WithRepeatedOptions(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """Parse the words of the command line."""
            return super().parse_args(ctx, list(joined(args, n_words)))

    return WithRepeatedOptions


def joined(words: Sequence[str], n_words: Mapping[str, int]) -> Iterator[str]:
    """The words of a command line, with those after each of the options as one JSON text.

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
    """The words of each time that an option was given."""
    return [json.loads(text) for text in texts or ()]
