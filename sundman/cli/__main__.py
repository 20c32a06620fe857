"""``python -m sundman.cli`` is the command ``sundman``."""

from sundman.cli import main

main()
