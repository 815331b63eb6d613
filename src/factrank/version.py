"""Version of factrank, recorded with every result."""

__version__ = "0.2.0"
