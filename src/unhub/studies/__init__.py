"""Studies: vary one setting and show what it does, as a table and a picture."""
