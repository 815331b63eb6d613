"""Editing: facts set and deleted in a constructed layer, without touching any other.

What lives here: where a layer keeps each fact, and how it is changed there. What may enter: the places of another
closed form.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.editing.fact_edits import Change as Change
    from factrank.families.attention.editing.fact_edits import Edited as Edited
    from factrank.families.attention.editing.fact_edits import edit as edit
    from factrank.families.attention.editing.fact_edits import edit_file as edit_file
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
