"""Solving: a memoriser in closed form, and the certificate of its answers.

Contents: the linear problem, its range, and the proof. Other solvers belong here.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.memoriser.solving.memoriser_certificate import MemoriserProver as MemoriserProver
    from factrank.families.memoriser.solving.memoriser_solve import solve as solve
    from factrank.families.memoriser.solving.memoriser_solve import started_memoriser as started_memoriser
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
