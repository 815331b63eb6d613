"""The version of factrank, which results are stored with."""

__version__ = "0.1.0"
