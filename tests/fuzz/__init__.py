"""Fuzzing: hostile inputs of every kind, and what must be true whatever they are.

Each module makes inputs of one kind; `runner` gives them to commands. The suite runs a few hundred with fixed seeds
(`test_fuzz.py`), `make fuzz` thousands (`long_form.py`).
"""
