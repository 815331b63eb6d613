"""Displays of results: what terminal, notebook and page show of an object, and its pictures.

Contains: descriptions as plain data, their HTML, the registry that maps classes to descriptions and pictures, and a
description for each kind of object. Add here: the description of another object. Add its line to `registry`.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.report.display.description import MOST_ROWS as MOST_ROWS
    from factrank.report.display.description import Description as Description
    from factrank.report.display.description import Kind as Kind
    from factrank.report.display.description import PlainTable as PlainTable
    from factrank.report.display.description import Tone as Tone
    from factrank.report.display.description import Words as Words
    from factrank.report.display.description import described as described
    from factrank.report.display.description import plain_table as plain_table
    from factrank.report.display.html_fragments import description_html as description_html
    from factrank.report.display.registry import description_of as description_of
    from factrank.report.display.registry import html_of as html_of
    from factrank.report.display.registry import picture_of as picture_of
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
