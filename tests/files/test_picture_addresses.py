"""Pictures of items by a template: which address or file each item gets, and which templates are refused."""

from pathlib import Path

import numpy as np
import pytest

from unhub.files import find_pictures

pytestmark = pytest.mark.once


def test_ids_are_escaped_in_an_address() -> None:
    ids = np.array(["a", "b/../c", 'x"> <y', "é?#%", "\udce9"])
    found = find_pictures("https://cdn.example/p/{id}.jpg?size=2&of={id}", ids)
    assert [str(one).partition("?")[0] for one in found.values()] == [
        "https://cdn.example/p/a.jpg",
        "https://cdn.example/p/b%2F..%2Fc.jpg",
        "https://cdn.example/p/x%22%3E%20%3Cy.jpg",
        "https://cdn.example/p/%C3%A9%3F%23%25.jpg",
        "https://cdn.example/p/%E9.jpg",
    ]
    assert str(found["a"]).endswith("&of=a")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("https://cdn.example/p.jpg", r"item_images must be an address with \{id\} after its host"),
        ("https://{id}.example/p.jpg", r"must be an address with \{id\} after its host"),
        ("https://cdn.example;script-src *//{id}", "item_images has the host"),
        ("https://me:secret@cdn.example/{id}", "item_images has the host"),
    ],
)
def test_a_template_that_is_no_plain_address_is_one_line(template: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        find_pictures(template, np.arange(3))


def test_a_template_of_paths_finds_the_files_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "1.png").touch()
    template = str(tmp_path / "small" / "{id}.png")
    assert find_pictures(template, np.arange(3)) == {1: tmp_path / "small" / "1.png"}
    with pytest.raises(ValueError, match=r"\{id\}\.png: there is no file for any item, such as 5"):
        find_pictures(template, np.array([5]))


@pytest.mark.parametrize(
    ("template", "one"),
    [
        ("photos/{id}.jpg", "../secret"),
        ("photos/{id}.jpg", "sub/../../secret"),
        ("photos/.{id}/secret.jpg", "."),
        ("photos/{id}", "../secret.jpg"),
        ("{id}.jpg", "sub/../secret"),
        ("{id}.jpg", "/absolute"),
    ],
)
def test_no_id_leads_out_of_the_folder_of_a_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template: str, one: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in (Path("secret.jpg"), Path(template.replace("{id}", "sub/kept"))):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    one = one.replace("/absolute", str(tmp_path / "secret"))
    assert Path(template.replace("{id}", one)).is_file()
    assert [*find_pictures(template, np.array([one, "sub/kept"]))] == ["sub/kept"]
    with pytest.raises(ValueError, match=r"there is no file for any item, such as .*, in its folder"):
        find_pictures(template, np.array([one]))


def test_a_table_may_name_addresses_and_paths(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text("id,text\n0,https://cdn.example/a.jpg\n1,b.jpg\n2,\n")
    found = find_pictures(tmp_path / "all.csv", np.arange(3))
    assert found == {0: "https://cdn.example/a.jpg", 1: tmp_path / "b.jpg"}
