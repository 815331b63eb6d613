"""The explorer: facts, ranks, layers and reproductions in a browser.

Contains: the page (`page`), a single HTML file that makes no requests, and the server of the live page (`server`). Add
here: another way to look at results interactively, but nothing that trains, measures or proves by itself.
"""
