"""Code shared by commands: sources of facts, output files, common options and messages.

Contains: everything that belongs to no single command. Add here: whatever a second command needs.
"""
