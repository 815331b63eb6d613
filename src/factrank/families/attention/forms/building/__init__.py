"""What closed forms are built from: blocks, routing, colours, labels.

What lives here: parts that several closed forms use. What may enter: a part that a second closed form needs.
"""
