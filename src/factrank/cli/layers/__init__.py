"""Commands that look into layers.

Contains: one module for each command. Add here: a command that reports on a model file.
"""
