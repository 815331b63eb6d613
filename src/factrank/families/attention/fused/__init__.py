"""The fused engine: attention layers trained by one hand-written loop, on CPU threads or GPU blocks.

What lives here: the kernels, how a run is laid out, the backends. What may enter: another backend.
"""
