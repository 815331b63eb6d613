"""Experiments: trials of any family of models, trained, stored, judged.

What lives here: specifications (`specs`), the protocols that a family implements (`families`), engines and tasks, lanes
(`lanes`), results on disk (`store`), who runs what where (`execution`), studies (`study`), claims and their statistics
(`statistics`), capacity searches (`capacity`). What may enter: what serves every family; it knows none by name.
"""
