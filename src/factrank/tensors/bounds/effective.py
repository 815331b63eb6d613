r"""Effective rank (argmax): the least rank of a tensor T whose readout is correct on every fact.

Correct means $\arg\max_v T[k, q, v] = f(k, q)$; a fiber with several values is correct if each of them is strictly
greater than all other entries. Upper bounds (`code_bounds`): the completion rank, trained logits and, for functional
databases, the parabola codes E1 and E2 and E2 with a label search; the searches are proved by exact margins. Lower
bounds: the limits of tensors of rank 0 and 1 (`value_sets`), of rank 2 (`label_pairs`) and of points and half-spaces in
any dimension (`value_traces`), and, for functional databases, Forster's bound on two values (`forster`). Warren's count
(`counting`) is listed under `tried`: it is typical for the size, not certified.

For a functional database, the effective rank under the readout softmax>=tau is the same: reading out {f} makes f
strictly largest. Conversely, if the argmax of logits over V values is correct with least margin m > 0, multiplying them
by more than $\ln\frac{(V - 1)\, t}{1 - t} / m$ with $t = \max(\tau, 1 - \tau)$ gives f a probability above t.
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
    """Returns bounds on the effective rank, given bounds on the completion rank."""
    upper = completion.upper
    method = upper.method if upper.inherited else f"completion rank: {upper.method}"
    bracket = Bracket("effective rank", core, ledger, replace(upper, method=method, inherited=True))
    return run_methods(methods(bracket.of), bracket).result()
