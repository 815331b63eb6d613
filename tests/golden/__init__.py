"""Golden results: what the package computed at one commit, kept as data, and compared field by field.

    python tests/golden/record.py --check     compare everything; exit code 1 if anything differs (`make golden`)
    python tests/golden/record.py             record everything again

Each topic (`trials`, `training`, `layers`, `readers`, `sizes`, `commands`) is a module of named cases, and a case
computes plain data. What lives deeper in the package than its public names is imported in `doors` alone. `machine.json`
says where the data were recorded: there, bits are compared; elsewhere, numbers to 1e-4.
"""
