"""Checkpoints of real models: readers, and an adapter for each architecture.

What lives here: Hugging Face folders, and how ViT, BERT and GPT-2 turn text or images into token vectors. What may
enter: another reader or adapter; no analysis.
"""
