"""Operating-system services: memory limits, atomic file replacement and file locks.

Contains: the services that other packages need from the operating system. Add here: another such service, if it does
not depend on databases or models.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.host.locking import locked as locked
    from factrank.host.locking import waiting_for_others as waiting_for_others
    from factrank.host.memory import memory_room as memory_room
    from factrank.host.memory import require_compilers_fit as require_compilers_fit
    from factrank.host.memory import require_memory as require_memory
    from factrank.host.streams import is_gzip as is_gzip
    from factrank.host.streams import replacing as replacing
    from factrank.host.streams import require_file as require_file
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
