"""Publishing: a folder with the results of a paper's studies that can be read and checked without a store.

Contains: published tables and their checks, lab reports, restoring a store. Add here: another check.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.report.publishing.published_tables import load_published as load_published
    from factrank.report.publishing.published_tables import published_size as published_size
    from factrank.report.publishing.publishing import CLAIMS as CLAIMS
    from factrank.report.publishing.publishing import README as README
    from factrank.report.publishing.publishing import differences as differences
    from factrank.report.publishing.publishing import publish as publish
    from factrank.report.publishing.restoring import restore as restore
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
