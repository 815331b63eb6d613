"""Execution: which trials run together, and on what.

What lives here: bundles, executors for this machine and for Ray, the runner, estimates of time and memory, trackers.
What may enter: another executor or tracker.
"""
