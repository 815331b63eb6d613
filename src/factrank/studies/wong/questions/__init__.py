"""Questions that the paper and our first runs of it leave open, each answered by a study fixed before its full run."""
