"""The live explorer: a server on the loopback address that measures, constructs, trains and plans for its page.

Contains: the application and its checks, sessions with their folders, and jobs with their worker processes. Add here:
another kind of job, as a function in `tasks` with its options in `requests`.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.app.server.application import Pages as Pages
    from factrank.app.server.application import create_app as create_app
    from factrank.app.server.limits import Limits as Limits
    from factrank.app.server.serving import serve as serve
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
