"""Constructions: layers and memories written in closed form, whose recall is proved fact by fact.

What lives here: one file per closed form, each a `Construction` (a database goes in, a layer comes out), the codes and
the routing that they share, certificates, edits; closed forms of associative memories, of models of sequences and of
memorisers, with certificates of their own. What may enter: another closed form. It touches NumPy, SciPy and JAX, and of
factrank the databases, tensors, models and readouts; python-flint only inside the functions that need it.
"""

from factrank.constructions.attention_map import AttentionMap as AttentionMap
from factrank.constructions.binary_codes import BinaryCodes as BinaryCodes
from factrank.constructions.certificate import Certificate as Certificate
from factrank.constructions.choose import construct as construct
from factrank.constructions.circle_layer import Circle as Circle
from factrank.constructions.constructed import Candidate as Candidate
from factrank.constructions.constructed import Constructed as Constructed
from factrank.constructions.construction import Built as Built
from factrank.constructions.construction import Construction as Construction
from factrank.constructions.construction import Precision as Precision
from factrank.constructions.construction import Search as Search
from factrank.constructions.digits_layer import Digits as Digits
from factrank.constructions.edit import Change as Change
from factrank.constructions.edit import Edited as Edited
from factrank.constructions.edit import edit as edit
from factrank.constructions.edit import edit_file as edit_file
from factrank.constructions.from_cp import FromCP as FromCP
from factrank.constructions.linear_solve import LinearSolve as LinearSolve
from factrank.constructions.memoriser_certificate import MemoriserCertificate as MemoriserCertificate
from factrank.constructions.memoriser_certificate import verify_memoriser as verify_memoriser
from factrank.constructions.memoriser_solve import SolvedMemoriser as SolvedMemoriser
from factrank.constructions.memoriser_solve import solve as solve
from factrank.constructions.memory import ConstructedMemory as ConstructedMemory
from factrank.constructions.memory import construct_memory as construct_memory
from factrank.constructions.memory_proof import MemoryCertificate as MemoryCertificate
from factrank.constructions.memory_proof import verify_memory as verify_memory
from factrank.constructions.mixed import Mixed as Mixed
from factrank.constructions.parabola_layer import Parabola as Parabola
from factrank.constructions.recall_sizes import CertifiedSize as CertifiedSize
from factrank.constructions.recall_sizes import smallest_recall as smallest_recall
from factrank.constructions.recall_task import ConstructedRecall as ConstructedRecall
from factrank.constructions.recall_task import construct_recall as construct_recall
from factrank.constructions.registry import CONSTRUCTIONS as CONSTRUCTIONS
from factrank.constructions.sequence_certificate import SequenceCertificate as SequenceCertificate
from factrank.constructions.sequence_certificate import verify_recall as verify_recall
from factrank.constructions.set_valued import SetValued as SetValued
from factrank.constructions.shared_heads import SharedHeads as SharedHeads
from factrank.constructions.verify import verify as verify
