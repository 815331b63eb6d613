"""Edited layers in words for the terminal: what was changed, what is answered now, the new certificate."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from factrank.databases import Database
from factrank.families.attention.editing import Edited
from factrank.foreign_text import shown_name
from factrank.report.constructed_tables import verdict
from factrank.report.plain_output import name_text, number
from factrank.report.terminal_tables import MOST_ROWS


def edited_table(name: str, edited: Edited) -> RenderableType:
    """What was changed, and the new certificate."""
    saved, found = edited.saved, edited.certificate
    text = name_text(name, longest=None, style="bold")
    done = [f"{edited.n_set:,} set", f"{edited.n_deleted:,} deleted"]
    if edited.n_unchanged:
        done.append(f"{edited.n_unchanged:,} were so already")
    text.append(
        f"\n{', '.join(done)}; {found.facts:,} facts now, least margin {number(found.margin)}", style="not bold"
    )
    for kind, names in (("new keys", edited.new_keys), ("new values", edited.new_values)):
        if names:
            text.append(f"\n{kind}: {_few(names)}", style="not bold")
    return Group(text, *_silence(edited, saved.database), verdict(found))


def _few(names: tuple[str, ...]) -> str:
    shown = ", ".join(shown_name(name) for name in names[:5])
    return shown + (f", ... ({len(names):,} in all)" if len(names) > 5 else "")


def _silence(edited: Edited, database: Database) -> list[Text]:
    """What the layer answers where a fact was deleted."""
    lines = []
    for key, query, value in edited.answers_after_deletion(MOST_ROWS):
        pair = f"({shown_name(database.keys[key])}, {shown_name(database.queries[query])})"
        answer = "no value is above all others" if value is None else f"answers {shown_name(database.values[value])}"
        lines.append(Text(f"{pair} has no fact now: {answer}"))
    if edited.n_deleted > MOST_ROWS:
        lines.append(Text(f"... and {edited.n_deleted - MOST_ROWS:,} more deletions"))
    return lines
