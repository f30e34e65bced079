"""Small projects of Python code with docstrings, made up, and a cache of their own for what is read."""

from pathlib import Path

VERBS = ("open", "close", "remove", "copy", "rename", "compress", "send", "count", "sort", "print", "delete", "read")
NOUNS = ("file", "folder", "message", "list", "picture", "window", "table", "song")


def write_project(folder: Path) -> Path:
    """Write a module for each noun, with a function for each verb, and return the folder."""
    folder.mkdir(parents=True)
    for noun in NOUNS:
        functions = (
            f"def {verb}_{noun}({noun}, strict=False):\n"
            f'    """{verb.capitalize()} the {noun} that is given."""\n'
            f"    {noun} = check({noun})\n"
            f"    result = system.{verb}({noun}, strict)\n"
            f"    return result.{verb}_done\n"
            for verb in VERBS
        )
        (folder / f"{noun}s.py").write_text("\n\n".join(functions))
    return folder
