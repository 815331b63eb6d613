"""The studies of associative memories of Nichani, Lee and Bietti 2025.

What lives here: linear and MLP memories, their capacities and limits. What may enter: another study of memories.
"""
