"""What commands share: where facts come from, where output goes, options and messages.

What lives here: everything of the command line that belongs to no single command. What may enter: what a second command
needs.
"""
