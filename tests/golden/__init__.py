"""Golden results: what the package computed at one commit, kept as data, and compared field by field.

    python tests/golden/record.py --check     compare everything; exit code 1 if anything differs (`make golden`)
    python tests/golden/record.py             record everything again

Each topic (`trials`, `training`, `layers`, `readers`, `sizes`, `commands`) is a module with named cases; a case computes
plain data. Everything that lives deeper in the package than its public names is imported in `doors` alone.
"""
