"""Studies of associative memories (Nichani, Lee and Bietti 2025): capacities and limits of linear and MLP memories."""
