"""Searches (CP, labels, training) take seconds and have tests of their own: here they run only where marked."""

import pytest

from factrank.tensors.bounds.upper import code_bounds, cp_bounds


@pytest.fixture(autouse=True)
def _no_searches(request, monkeypatch):
    if request.node.get_closest_marker("searches") is None:
        monkeypatch.setattr(code_bounds, "SHARES", dict.fromkeys(code_bounds.SHARES, 0.0))
        monkeypatch.setattr(cp_bounds, "SHARE", 0.0)
