"""What is taken of a Python file, on files written by hand."""

import warnings

import pytest

from unhub.demo.functions.extracting import Function, UnreadableCode, functions_in, spaced

pytestmark = pytest.mark.once

BODY = "one = two(three, four)\n    return one + five + six"


def found(source: str) -> list[Function]:
    return functions_in(source.encode())


def names(source: str) -> list[str]:
    return [one.name for one in found(source)]


def test_a_function_is_its_first_paragraph_and_its_code_without_it() -> None:
    source = f'''def read_file(path: str, asText=False):
    """Read the whole file
    from a path.

    More about it.
    """
    {BODY}
'''
    assert found(source) == [
        Function(
            1,
            "read_file",
            "Read the whole file from a path.",
            "def read file path str as text false one two three four return one five six",
        )
    ]


def test_the_words_of_names_stand_apart() -> None:
    assert spaced("getHTTPResponse_code2 XMLParser") == "get http response code 2 xml parser"
    assert spaced("Größe_im ΣBild") == "gr öß e im σ bild"


def test_methods_inner_functions_async_ones_and_decorated_ones_are_found() -> None:
    source = f'''class Outer:
    """The outer one of the classes."""

    class Inner:
        @property
        def size(self):
            """Return how large it is."""
            {BODY.replace("    ", "            ")}

    async def fetch(self):
        """Fetch it over the network."""
        def helper():
            """Help with the fetching here."""
            {BODY.replace("    ", "            ")}
        return helper(one, two, three, four, five)

if True:
    try:
        pass
    except OSError:
        def late():
            """Come late to the party."""
            {BODY.replace("    ", "            ")}
'''
    assert names(source) == ["Outer.Inner.size", "Outer.fetch", "Outer.fetch.helper", "late"]
    lines = {one.name: one.line for one in found(source)}
    assert lines["Outer.Inner.size"] == 6  # of the def, not of its decorator
    (fetch,) = (one for one in found(source) if one.name == "Outer.fetch")
    assert "help with the fetching" not in fetch.code  # nor the docstrings of what is inside
    assert "helper" in fetch.code


@pytest.mark.parametrize(
    "source",
    [
        f"def none():\n    {BODY}\n",
        f'def short():\n    """Too few words."""\n    {BODY}\n',
        'def empty():\n    """Do nothing at all here."""\n',
        'def passing():\n    """Do nothing at all here."""\n    pass\n',
        'def abstract():\n    """Do something in a subclass."""\n    raise NotImplementedError("in a subclass")\n',
        f'def joined():\n    f"""This is no docstring {{1}}."""\n    {BODY}\n',
        'name = """def of four words"""\n',
        "",
    ],
)
def test_what_asks_or_does_too_little_is_left_out(source: str) -> None:
    assert found(source) == []


def test_a_docstring_on_the_line_of_its_def_is_cut_out() -> None:
    source = 'def f(a): "Add one to a number."; return a + one + two + three + four + five + six\n'
    (one,) = found(source)
    assert one.question == "Add one to a number."
    assert one.code == "def f a return a one two three four five six"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_every_kind_are_read(end: str) -> None:
    source = f'x = "\N{LINE SEPARATOR}\x0c"\ndef f():\n    """Show the größe of it."""\n    {BODY}\n'.replace("\n", end)
    (one,) = functions_in(source.encode())
    assert (one.line, one.question) == (2, "Show the größe of it.")
    assert one.code.endswith("return one five six")


def test_an_encoding_that_is_declared_is_used() -> None:
    source = f'# -*- coding: latin-1 -*-\ndef f():\n    """Return the size of größe."""\n    {BODY}\n'
    (one,) = functions_in(source.encode("latin-1"))
    assert one.question == "Return the size of größe."
    (one,) = functions_in(b"\xef\xbb\xbf" + source.split("\n", 1)[1].encode())
    assert one.question == "Return the size of größe."


@pytest.mark.parametrize(
    "source",
    [
        b"def f(:\n",
        b"def f(): '\xff'\n",
        b"# coding: nonsense\ndef f(): pass\n",
        b"def f(): pass\0\n",
        b"def f(): return " + b"(" * 500 + b")" * 500 + b"\n",
        b"def f(): return " + b"-" * 20_000 + b"1\n",
    ],
    ids=["syntax", "bytes", "encoding", "null", "nested", "deep"],
)
def test_what_is_not_python_is_an_error_of_one_kind(source: bytes) -> None:
    with pytest.raises(UnreadableCode):
        functions_in(source)


def test_warnings_of_the_code_are_not_ours() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert names(f'def f():\n    """Match the \\d of it."""\n    x = "\\d" is 5\n    {BODY}\n') == ["f"]
