"""The ``sundman`` command: samplers, networks and reports from the shell.

There is a folder for each of the large commands (``bnn``, ``toy`` and ``demo``), a module for the
small ones, and what they share: options, samplers by name, the directory of the results, output.
"""
