"""Audits of real models: the circuits of their heads, and token vectors on which assumptions are checked.

Contains: ranks of QK and OV from their factors, updates of LoRA adapters, and token vectors of a checkpoint, a small
random model or a file; checks of the theory belong to families. Add here: another analysis of a checkpoint.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.auditing.circuit_spectra import Spectrum as Spectrum
    from factrank.auditing.forward_check import CHECK_TOLERANCE as CHECK_TOLERANCE
    from factrank.auditing.forward_check import CheckedLayer as CheckedLayer
    from factrank.auditing.forward_check import ForwardCheck as ForwardCheck
    from factrank.auditing.forward_check import check_forward as check_forward
    from factrank.auditing.head_audits import AtDistance as AtDistance
    from factrank.auditing.head_audits import HeadCircuits as HeadCircuits
    from factrank.auditing.head_audits import LayerAudit as LayerAudit
    from factrank.auditing.head_audits import audit_layer as audit_layer
    from factrank.auditing.head_audits import most_facts as most_facts
    from factrank.auditing.model_audit import AuditedUpdate as AuditedUpdate
    from factrank.auditing.model_audit import LoraAudit as LoraAudit
    from factrank.auditing.model_audit import ModelAudit as ModelAudit
    from factrank.auditing.model_audit import audit as audit
    from factrank.auditing.opened_models import open_language_model as open_language_model
    from factrank.auditing.opened_models import opened_model as opened_model
    from factrank.auditing.table_recall import TableRecall as TableRecall
    from factrank.auditing.token_facts import DirectEntry as DirectEntry
    from factrank.auditing.token_facts import DirectFacts as DirectFacts
    from factrank.auditing.token_facts import FactsInWeights as FactsInWeights
    from factrank.auditing.token_facts import HeadFacts as HeadFacts
    from factrank.auditing.token_facts import SkipTrigram as SkipTrigram
    from factrank.auditing.token_facts import extract as extract
    from factrank.auditing.token_facts import facts_in_weights as facts_in_weights
    from factrank.auditing.tokens import Request as Request
    from factrank.auditing.tokens import TokenVectors as TokenVectors
    from factrank.auditing.tokens import token_vectors as token_vectors
    from factrank.auditing.vector_files import read_array as read_array
    from factrank.auditing.vector_files import read_vectors as read_vectors
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
