"""The memory family: linear and MLP associative memories of Nichani, Lee and Bietti 2025.

What lives here: shapes, models, the task, closed forms with their proof, the limit of linear memories.
"""
