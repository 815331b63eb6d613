"""The explorer page: a payload of plain data, and the HTML that shows it.

Contains: `explorer_payload`, `build_explorer`, `explore`, the gallery of reproductions, and the assets of the page
(ES modules, a style sheet and a template). Add here: another view, as a module in `assets`.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.app.page.explorer_page import MOST_CONSTRUCTED as MOST_CONSTRUCTED
    from factrank.app.page.explorer_page import ExplorerPage as ExplorerPage
    from factrank.app.page.explorer_page import explore as explore
    from factrank.app.page.gallery import gallery_payload as gallery_payload
    from factrank.app.page.page import MOST_BYTES as MOST_BYTES
    from factrank.app.page.page import build_explorer as build_explorer
    from factrank.app.page.payload import coded_parts as coded_parts
    from factrank.app.page.payload import explorer_payload as explorer_payload
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
