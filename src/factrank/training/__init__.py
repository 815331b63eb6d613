"""Training: the specification of a run, and engines that train thousands of small models at once.

What lives here: `Trial`, the tasks that turn it into something to train, the lanes engine, checks and stopping,
progress. What may enter: another task, another engine. It touches JAX, equinox and optax, and of factrank the
databases, models and readouts; nothing that a bare GPU machine lacks.
"""
