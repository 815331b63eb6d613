"""Set and delete facts in a constructed layer without affecting other facts.

Contains: the location of each fact in a layer, and edits there. Add here: the locations of another closed form.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.editing.changes import Change as Change
    from factrank.families.attention.editing.changes import Edited as Edited
    from factrank.families.attention.editing.fact_edits import edit as edit
    from factrank.families.attention.editing.fact_edits import edit_file as edit_file
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
