"""`python -m runspine` is the `runspine` command."""

from runspine.cli import main

if __name__ == "__main__":
    main()
