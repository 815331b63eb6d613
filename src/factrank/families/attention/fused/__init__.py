"""The fused engine: attention layers trained by one hand-written loop, on CPU threads or GPU blocks.

What lives here: the kernels, how a run is laid out, the backends. What may enter: another backend.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.fused.fused_engine import marks_of as marks_of
    from factrank.families.attention.fused.fused_engine import platform_of as platform_of
    from factrank.families.attention.fused.fused_engine import run_fused as run_fused
    from factrank.families.attention.fused.fused_threads import thread_count as thread_count
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
