"""What trials measure of their models, against the readouts."""

import pytest

from factrank.readouts.recall_report import recall


def require_measures_of_readout(result, database, taus):
    """Recalls, hallucinations and margins of a trained model are those that `recall` reports."""
    assert taus
    for tau in taus:
        report = recall(result.model, database, tau)
        assert result.metrics["recall"] == report.recall
        assert result.metrics[f"recall_{tau}"] == report.recall_tau
        assert result.metrics[f"hallucinations_{tau}"] == report.hallucinations
        assert result.metrics["margin"] == pytest.approx(report.margin, abs=1e-5)
        assert result.metrics["median_margin"] == pytest.approx(report.median_margin, abs=1e-5)
