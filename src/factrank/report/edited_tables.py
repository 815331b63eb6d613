"""Description of edited layers."""

from __future__ import annotations

from factrank.databases import Database
from factrank.families.attention.editing import Edited
from factrank.foreign_text import shown_name
from factrank.report.constructed_tables import verdict
from factrank.report.display import MOST_ROWS, Description, Words, described
from factrank.report.plain_output import listed, number


def edited_table(name: str, edited: Edited) -> Description:
    """Describe the changes, the answers to pairs whose fact was deleted, and the new certificate."""
    saved, found = edited.saved, edited.certificate
    done = [f"{edited.n_set:,} set", f"{edited.n_deleted:,} deleted"]
    if edited.n_unchanged:
        done.append(f"{edited.n_unchanged:,} unchanged")
    changes = f"{', '.join(done)}; {found.facts:,} facts now, least margin {number(found.margin)}"
    lines = [Words(shown_name(name, None), "title"), Words(changes)]
    for kind, names in (("new keys", edited.new_keys), ("new values", edited.new_values)):
        if names:
            lines.append(Words(f"{kind}: {listed(names)}"))
    if edited.n_moved:
        lines.append(Words(f"{edited.n_moved:,} other facts of the same keys keep their answers, not their logits"))
    return described(*lines, *_silence(edited, saved.database), verdict(found))


def _silence(edited: Edited, database: Database) -> list[Words]:
    lines = []
    for key, query, value in edited.answers_after_deletion(MOST_ROWS):
        pair = f"({shown_name(database.keys[key])}, {shown_name(database.queries[query])})"
        answer = "no single best value" if value is None else f"answers {shown_name(database.values[value])}"
        lines.append(Words(f"{pair} has no fact now: {answer}"))
    if edited.n_deleted > MOST_ROWS:
        lines.append(Words(f"... and {edited.n_deleted - MOST_ROWS:,} more deletions"))
    return lines
