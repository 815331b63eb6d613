"""The machine underneath: its memory, files that are replaced in one step, and locks on them.

What lives here: what every other room asks of the operating system. What may enter: another such service; nothing that
knows databases or models.
"""
