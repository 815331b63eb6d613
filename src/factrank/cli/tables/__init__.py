"""Commands that make tables of facts.

Contains: one module for each command. Add here: a command that writes or lists tables.
"""
