"""Version of factrank, recorded with every result."""

__version__ = "0.1.0"
