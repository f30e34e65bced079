"""Runs the command line: `python -m unhub`."""

from unhub.cli import main

if __name__ == "__main__":
    main()
