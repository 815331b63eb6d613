"""The attention family: the single layer of Wong 2025 and its transformer options.

What lives here: shapes and models, their tensors and ranks, the task of learning a database, measures, files; the fused
engine (`fused`), closed forms (`forms`), proofs (`proof`), edits (`editing`) and what single heads do (`circuits`).
"""
