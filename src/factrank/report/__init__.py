"""What people see: tables for the terminal, charts for the page.

What lives here: tables, charts, the reports of studies (`study`) and published folders (`publishing`). What may enter:
another way to show a result; it computes none.
"""
