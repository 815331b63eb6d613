r"""Effective rank (argmax): the least rank of a tensor T whose readout is right on every fact.

Right means $\arg\max_v T[k, q, v] = f(k, q)$; a fiber with several values is right when each of them is strictly above
all others. Upper bounds: the completion rank, and for functional databases the parabola codes E1 and E2
(`code_bounds`), E2 with a search for labels and trained logits (`code_searches`), both proved by exact margins. Lower
bounds: what a tensor of rank 0 or 1 cannot show (`value_sets`), and for functional databases Forster's bound where only
two values occur (`forster`).
The count of `counting` stands among what was tried: typical for the size, not certified.

For the readout softmax>=tau the effective rank of a functional database on its facts is the same: the readout {f} makes
f strictly largest. Conversely, logits on V values whose argmax is right with least margin m > 0 need only be multiplied
by more than $\ln\frac{(V - 1)\, t}{1 - t} / m$, $t = \max(\tau, 1 - \tau)$: f then has a probability above t.
"""

from __future__ import annotations

from dataclasses import replace

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import RankBounds
from factrank.tensors.bounds.ledger import Ledger
from factrank.tensors.bounds.method import run_methods
from factrank.tensors.bounds.registry import methods
from factrank.tensors.core import Core


def effective_bounds(core: Core, completion: RankBounds, ledger: Ledger) -> RankBounds:
    """The bracket of the effective rank, given that of the completion rank."""
    upper = completion.upper
    method = upper.method if upper.inherited else f"completion rank: {upper.method}"
    bracket = Bracket("effective rank", core, ledger, replace(upper, method=method, inherited=True))
    return run_methods(methods(bracket.of), bracket).result()
