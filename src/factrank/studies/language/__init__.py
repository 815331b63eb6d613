"""The last open question of Wong 2025: do its findings carry over to language models trained on diverse tasks?

Each study has a module of its own; `settings` holds what they share, `tuned_rate` the choice of a learning rate. Every
study exists on two grids: `STUDIES` are small models, in the order of the lab report; `WAITING` are the same studies
with models for a GPU, whose full size has not been run. `text_study` asks about any other corpus.
"""

from __future__ import annotations

from factrank.experiments.study import Study
from factrank.studies.language.held_out_text import LANGUAGE_TEXT, LANGUAGE_TEXT_SMALL
from factrank.studies.language.held_out_text import text_study as text_study
from factrank.studies.language.places import LANGUAGE_PLACES, LANGUAGE_PLACES_SMALL
from factrank.studies.language.split import LANGUAGE_SPLIT, LANGUAGE_SPLIT_SMALL
from factrank.studies.language.split_confirmed import LANGUAGE_SPLIT_CONFIRMED, LANGUAGE_SPLIT_CONFIRMED_SMALL
from factrank.studies.language.trade_off import LANGUAGE_TRADE_OFF, LANGUAGE_TRADE_OFF_SMALL

STUDIES: tuple[Study, ...] = (
    LANGUAGE_SPLIT_SMALL,
    LANGUAGE_SPLIT_CONFIRMED_SMALL,
    LANGUAGE_TRADE_OFF_SMALL,
    LANGUAGE_TEXT_SMALL,
    LANGUAGE_PLACES_SMALL,
)
WAITING: tuple[Study, ...] = (
    LANGUAGE_SPLIT,
    LANGUAGE_SPLIT_CONFIRMED,
    LANGUAGE_TRADE_OFF,
    LANGUAGE_TEXT,
    LANGUAGE_PLACES,
)
"""Studies whose full size has not been run: it needs a GPU."""
