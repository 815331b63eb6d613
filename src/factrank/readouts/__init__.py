"""Readouts: from logits to answers, and how many of them are right.

What lives here: argmax, softmax and softmax>=tau, recall over all facts, artifacts, attribution to paths, diagnosis,
single answers.
What may enter: another question to ask of a trained layer. It touches JAX and NumPy, and of factrank the databases,
tensors and models.
"""

from factrank.readouts.answer import Answer as Answer
from factrank.readouts.answer import answer as answer
from factrank.readouts.attention_statistics import HeadStatistics as HeadStatistics
from factrank.readouts.attribution import Attribution as Attribution
from factrank.readouts.attribution import PairAttribution as PairAttribution
from factrank.readouts.attribution import additive_numbers as additive_numbers
from factrank.readouts.attribution import attribute as attribute
from factrank.readouts.attribution import attribute_facts as attribute_facts
from factrank.readouts.database_ranks import certified_ranks as certified_ranks
from factrank.readouts.diagnosis import Diagnosis as Diagnosis
from factrank.readouts.diagnosis import Finding as Finding
from factrank.readouts.diagnosis import diagnose as diagnose
from factrank.readouts.fibers import fibers_of as fibers_of
from factrank.readouts.reading import readings_of as readings_of
from factrank.readouts.readout import ReadoutRanks as ReadoutRanks
from factrank.readouts.readout import argmax_tensor as argmax_tensor
from factrank.readouts.readout import logits_at as logits_at
from factrank.readouts.readout import readout_ranks as readout_ranks
from factrank.readouts.readout import softmax_at as softmax_at
from factrank.readouts.readout import threshold_tensor as threshold_tensor
from factrank.readouts.recall import FactMargins as FactMargins
from factrank.readouts.recall import QueryRecall as QueryRecall
from factrank.readouts.recall import Recall as Recall
from factrank.readouts.recall import margins_of as margins_of
from factrank.readouts.recall import recall as recall
