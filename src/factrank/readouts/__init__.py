"""Readouts: from logits to answers, and how many of them are right.

What lives here: argmax and softmax>=tau, margins, recall and the reports of them, for any model that answers pairs
(`ReadsFacts`). What may enter: another readout, or another number that follows from logits and facts alone.
"""
