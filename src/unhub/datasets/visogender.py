"""VisoGender (Hall et al., NeurIPS 2023): does a ranking for an occupation favour one perceived gender?"""

from __future__ import annotations

import numpy as np

from unhub.datasets.annotations import need, read_table
from unhub.datasets.dataset import Protocol
from unhub.datasets.described import Contents, Download, Known
from unhub.datasets.parts import captioned
from unhub.datasets.scanned import Scanned

PROMPT = "The {occupation} and their {other}."  # of paper NNN; neutral as to gender
OTHERS = {"OO": "Object", "OP": "Participant"}
GENDER = "Occupation_perceived_gender"
RELEASE = "the repository visogender, folder data"
TABLES = {
    split: Download(
        (f"{split}_Visogender_*.tsv",), f"occupations, and the {other.lower()} with each", RELEASE, splits=(split,)
    )
    for split, other in OTHERS.items()
}
IMAGES = Download((), "each image that the table links to, saved as OO_1.jpg after its IDX", "the links of the table")


def load(files: Scanned, split: str) -> Contents:
    """Read the table: an occupation is a query, its images are the answers, and a group is a perceived gender."""
    rows = read_table(need(files, TABLES[split]), ("IDX", "Occupation", OTHERS[split], GENDER))
    others: dict[str, str] = {}
    notes: dict[str, None] = {}
    for _, occupation, written, _ in rows:
        other = written.replace("_", " ")  # one object is written in both ways
        if (first := others.setdefault(occupation, other)) != other:
            notes[f"{occupation} is with {first} and with {other}: its query names the first, for all its images"] = (
                None
            )
    asked = [(image, one, PROMPT.format(occupation=one, other=others[one])) for image, one, _, _ in rows]
    genders = sorted({gender for *_, gender in rows})
    groups = {gender: np.array([row[0] for row in rows if row[-1] == gender], np.str_) for gender in genders}
    test = captioned(files, "image", [row[0] for row in rows], asked)
    return Contents({"test": test}, tuple(notes), groups=groups)


KNOWN = Known(
    "visogender",
    "VisoGender",
    Protocol("group-bias", ("t2i",), ("R@1", "R@5")),
    ("OO", "OP"),
    {"OO": {"test": (230, 23)}, "OP": {"test": (460, 23)}},
    (TABLES["OO"], TABLES["OP"], IMAGES),
    "CC BY 4.0; to measure only, never to train on; each image has its own licence",
    load,
)
