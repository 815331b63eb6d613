"""Commands on checkpoints of pretrained models: `audit` and what belongs to it.

Contains: one thin file per command. Add here: another command that reads a checkpoint.
"""
