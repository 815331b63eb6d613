"""Facts: the `Database`, where it comes from and where it goes.

What lives here: databases with their vocabularies, tables of any library, file formats (`files`), generators
(`generators`) and samples. What may enter: another format, generator or sample. It needs NumPy and Arrow, and knows no
model.
"""
