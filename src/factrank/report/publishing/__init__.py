"""Publishing: the results of a paper's studies in a folder that can be read, and checked, without a store.

What lives here: published tables, their checks, lab reports, restoring a store. What may enter: another check.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.report.publishing.publishing import differences as differences
    from factrank.report.publishing.publishing import publish as publish
    from factrank.report.publishing.restoring import restore as restore
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
