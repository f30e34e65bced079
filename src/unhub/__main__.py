"""Runs the command line: `python -m unhub`."""

from unhub.cli import program

if __name__ == "__main__":
    program()
