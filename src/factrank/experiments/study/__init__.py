"""Runs: studies, what runs their trials, and where the results are kept.

What lives here: `Study`, its charts and claims as data, what a search is, the table of results and the `Store` that
keeps it on disk. What may enter: another executor, another way to write a study down. It touches pyarrow and
safetensors, and of factrank everything up to training; nothing that a bare GPU machine lacks, and nothing that draws.
"""

from factrank.runs.claims import Claim as Claim
from factrank.runs.claims import Quantity as Quantity
from factrank.runs.fits import Fit as Fit
from factrank.runs.result_tables import Tables as Tables
from factrank.runs.runner import run_study as run_study
from factrank.runs.searches import Search as Search
from factrank.runs.store import Store as Store
from factrank.runs.study import Chart as Chart
from factrank.runs.study import Size as Size
from factrank.runs.study import Source as Source
from factrank.runs.study import Study as Study
from factrank.runs.study import no_trials as no_trials
from factrank.runs.summaries import Summary as Summary
