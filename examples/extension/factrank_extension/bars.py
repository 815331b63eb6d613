"""A file format: fields with bars between them, in files that end in .psv."""

from factrank.databases.files import Delimited, Dialect

BARS = Delimited(Dialect("|"))
