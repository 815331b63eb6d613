"""Templates: how attributes of biographies are said in words. Each sentence has six tokens, {} among them.

Sentences of equal length keep the records of a batch aligned, whichever templates they draw. The last token is a full
stop. No template repeats one of another attribute, so the words before a value tell which attribute it is.
"""

from __future__ import annotations

SLOT = "{}"

TEMPLATES: dict[str, tuple[str, ...]] = {
    "birth month": (
        "Their birth month is {} .",
        "In {} they were born .",
        "They were born during {} .",
        "They arrived one fine {} .",
        "The month of birth: {} .",
    ),
    "birth day": (
        "Their birth day is {} .",
        "On day {} they arrived .",
        "The calendar showed day {} .",
        "Day {} saw them born .",
        "The day of birth: {} .",
    ),
    "birth year": (
        "Their birth year is {} .",
        "The year {} welcomed them .",
        "They date back to {} .",
        "Since {} they have lived .",
        "The year of birth: {} .",
    ),
    "birth city": (
        "Their home town is {} .",
        "In {} their parents lived .",
        "They call {} their home .",
        "They came here from {} .",
        "The place of birth: {} .",
    ),
    "university": (
        "Their old university is {} .",
        "At {} they took lectures .",
        "They hold degrees from {} .",
        "Professors at {} taught them .",
        "The place of study: {} .",
    ),
    "major": (
        "Their main subject is {} .",
        "They chose {} as major .",
        "They wrote theses on {} .",
        "Exams in {} went well .",
        "The field of study: {} .",
    ),
    "employer": (
        "Their present employer is {} .",
        "At {} they earn money .",
        "They have joined company {} .",
        "Today {} pays their salary .",
        "The place of work: {} .",
    ),
}
"""Sentences about each attribute."""
