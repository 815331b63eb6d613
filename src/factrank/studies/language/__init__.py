"""The last open question of Wong 2025: do its findings carry over to language models trained on diverse tasks?

Each study has a module of its own; `settings` holds what they share, `tuned_rate` the choice of a learning rate.
`STUDIES` lists them in the order of the lab report; `text_study` makes the one that needs a corpus.
"""

from __future__ import annotations

from factrank.experiments.study import Study
from factrank.studies.language.held_out_text import text_study as text_study
from factrank.studies.language.places import LANGUAGE_PLACES
from factrank.studies.language.split import LANGUAGE_SPLIT
from factrank.studies.language.split_confirmed import LANGUAGE_SPLIT_CONFIRMED
from factrank.studies.language.trade_off import LANGUAGE_TRADE_OFF

STUDIES: tuple[Study, ...] = (LANGUAGE_SPLIT, LANGUAGE_SPLIT_CONFIRMED, LANGUAGE_TRADE_OFF, LANGUAGE_PLACES)
