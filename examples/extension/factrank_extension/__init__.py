"""What a package of your own can add to factrank: one module for each kind, named in pyproject.toml."""
