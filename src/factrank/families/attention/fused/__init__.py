"""The fused engine: attention layers trained by a hand-written loop, on CPU threads or GPU blocks.

Contents: the kernels, the layout of runs, and the backends. Another backend belongs here.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.fused.fused_engine import marks_of as marks_of
    from factrank.families.attention.fused.fused_engine import platform_of as platform_of
    from factrank.families.attention.fused.fused_engine import run_fused as run_fused
    from factrank.families.attention.fused.fused_gpu import gpu_missing as gpu_missing
    from factrank.families.attention.fused.fused_gpu import shared_room as shared_room
    from factrank.families.attention.fused.fused_snapshots import Snapshot as Snapshot
    from factrank.families.attention.fused.fused_snapshots import snapshots as snapshots
    from factrank.families.attention.fused.fused_threads import thread_count as thread_count
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
