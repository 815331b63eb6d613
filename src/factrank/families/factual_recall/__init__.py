"""The factual recall family: one-layer models that read sequences (Nichani, Lee and Bietti 2025).

What lives here: shapes, layouts, models, batches of sequences, measures, closed forms with certificates for every noise
context.
"""
