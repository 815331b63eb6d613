"""The memory family: linear and MLP associative memories of Nichani, Lee and Bietti 2025.

What lives here: shapes, models, the task, closed forms with their proof, the limit of linear memories. What may enter:
another memory of pairs.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.memory.associative_memory import AssociativeMemory as AssociativeMemory
    from factrank.families.memory.associative_memory import LinearMemory as LinearMemory
    from factrank.families.memory.associative_memory import MlpMemory as MlpMemory
    from factrank.families.memory.memory_construction import construct_memory as construct_memory
    from factrank.families.memory.memory_proof import MemoryProver as MemoryProver
    from factrank.families.memory.memory_shape import MemoryShape as MemoryShape
    from factrank.families.memory.memory_shape import Start as Start
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
