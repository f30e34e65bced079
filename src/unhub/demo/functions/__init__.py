"""Functions: search those of Python and of the installed packages by what they do, on the machine at hand."""
