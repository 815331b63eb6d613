"""The memory family: linear and MLP associative memories (Nichani, Lee and Bietti 2025).

Contents: shapes, models, the training task, closed forms with their proof, and the capacity limit of linear memories.
A new memory of key-value pairs belongs here.
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
    from factrank.families.memory.weighted_facts import WeightedFacts as WeightedFacts
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
