"""`python -m runspine` is the `runspine` command."""

from runspine.cli import main

main()
