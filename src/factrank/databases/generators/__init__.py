"""Generators: databases made from sizes and a seed, by name.

What lives here: random, structured and named databases, and the registry that studies and the command line call them
by. What may enter: another generator, a pure function of its arguments.
"""
