"""Studies: a question, the trials that answer it, and how the answer is shown, as plain data.

What lives here: `Study`, studies in files, searches that ask for trials round by round, the table of one study. What
may enter: another way to describe a study.
"""
