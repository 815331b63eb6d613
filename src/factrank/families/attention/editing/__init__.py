"""Editing: facts set and deleted in a constructed layer, without touching any other.

What lives here: where a layer keeps each fact, and how it is changed there. What may enter: the places of another
closed form.
"""
