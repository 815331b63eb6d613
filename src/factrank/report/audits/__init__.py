"""Audits of checkpoints as tables, pictures and a page.

Contains: the description of an audit for the terminal and notebooks, its charts, and the self-contained page. Add here:
another view of an audit; what is shown is computed in `auditing`.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.report.audits.audit_page import build_audit_page as build_audit_page
    from factrank.report.audits.audit_page import write_audit_page as write_audit_page
    from factrank.report.audits.audit_tables import describe_audit as describe_audit
    from factrank.report.audits.audit_tables import describe_check as describe_check
    from factrank.report.audits.audit_tables import describe_facts as describe_facts
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
