"""factrank: how many facts can an attention layer hold?

Give it a table of facts: it says how big the table really is, by certified bounds on the rank of its tensor, writes it
into an attention layer in closed form or trains layers on it, and says what they recall.

>>> import factrank
>>> facts = factrank.Database.from_facts([("Paris", "country", "France"), ("Lyon", "country", "France")])
>>> factrank.measure(facts).rank.upper.value
1
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from factrank.constructions import Certificate as Certificate
    from factrank.constructions import Constructed as Constructed
    from factrank.constructions import construct as construct
    from factrank.constructions import edit as edit
    from factrank.constructions import verify as verify
    from factrank.databases import Database as Database
    from factrank.databases import RandomExamples as RandomExamples
    from factrank.databases import VectorExamples as VectorExamples
    from factrank.databases import from_table as from_table
    from factrank.databases import generate as generate
    from factrank.databases import read as read
    from factrank.databases import sample as sample
    from factrank.databases import to_table as to_table
    from factrank.databases import write as write
    from factrank.errors import FactrankError as FactrankError
    from factrank.models import AttentionLayer as AttentionLayer
    from factrank.models import LayerShape as LayerShape
    from factrank.models import MemoriserShape as MemoriserShape
    from factrank.models import MemoryShape as MemoryShape
    from factrank.models import OneHotShape as OneHotShape
    from factrank.models import RecallTransformer as RecallTransformer
    from factrank.models import SequenceShape as SequenceShape
    from factrank.models import TransformerShape as TransformerShape
    from factrank.models import load_layer as load_layer
    from factrank.models import save_layer as save_layer
    from factrank.readouts import answer as answer
    from factrank.readouts import attribute as attribute
    from factrank.readouts import diagnose as diagnose
    from factrank.readouts import recall as recall
    from factrank.runs import Store as Store
    from factrank.runs import Study as Study
    from factrank.runs import run_study as run_study
    from factrank.tensors import Measurement as Measurement
    from factrank.tensors import RankBounds as RankBounds
    from factrank.tensors import measure as measure
    from factrank.training import Training as Training
    from factrank.training import Trial as Trial
    from factrank.training import best_of as best_of
    from factrank.training import train as train
    from factrank.training import train_many as train_many

__version__ = "0.1.0"

_HOME = {
    "AttentionLayer": "factrank.models",
    "Certificate": "factrank.constructions",
    "Constructed": "factrank.constructions",
    "Database": "factrank.databases",
    "FactrankError": "factrank.errors",
    "LayerShape": "factrank.models",
    "Measurement": "factrank.tensors",
    "MemoriserShape": "factrank.models",
    "MemoryShape": "factrank.models",
    "OneHotShape": "factrank.models",
    "RandomExamples": "factrank.databases",
    "RankBounds": "factrank.tensors",
    "RecallTransformer": "factrank.models",
    "SequenceShape": "factrank.models",
    "Store": "factrank.runs",
    "Study": "factrank.runs",
    "Training": "factrank.training",
    "TransformerShape": "factrank.models",
    "VectorExamples": "factrank.databases",
    "Trial": "factrank.training",
    "answer": "factrank.readouts",
    "attribute": "factrank.readouts",
    "construct": "factrank.constructions",
    "diagnose": "factrank.readouts",
    "edit": "factrank.constructions",
    "from_table": "factrank.databases",
    "generate": "factrank.databases",
    "load_layer": "factrank.models",
    "measure": "factrank.tensors",
    "read": "factrank.databases",
    "recall": "factrank.readouts",
    "run_study": "factrank.runs",
    "sample": "factrank.databases",
    "save_layer": "factrank.models",
    "to_table": "factrank.databases",
    "best_of": "factrank.training",
    "train": "factrank.training",
    "train_many": "factrank.training",
    "verify": "factrank.constructions",
    "write": "factrank.databases",
}
"""Where each public name lives. It is loaded when first used, so that `import factrank` stays fast."""

__all__ = [  # noqa: PLE0604 - all strings
    *_HOME,
    "__version__",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'factrank' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
