"""PubMed and BookSet, the halves of ARCH (Gamper and Rajpoot, CVPR 2021) that PLIP is tested on."""

from __future__ import annotations

from collections import defaultdict

from unhub.datasets.annotations import need, of_form, read_json, text_of
from unhub.datasets.described import TEXT_IMAGE, Contents, Download, Known
from unhub.datasets.parts import captioned_parts
from unhub.datasets.scanned import Scanned

FORM = '{"0": {"caption", "uuid"}, ...}'
RELEASE = "the download page of ARCH, University of Warwick"
CAPTIONS = Download(("captions.json",), "a caption and an image's uuid in each entry", RELEASE)


def load(files: Scanned, split: str) -> Contents:
    """Read the captions; all of them are the test."""
    path = need(files, CAPTIONS)
    captions = defaultdict(list)
    with of_form(path, FORM):
        for entry in read_json(path).values():
            captions[text_of(entry["uuid"])].append(text_of(entry["caption"]))
    return captioned_parts(files, "image", {"test": list(captions)}, {"test": captions})


def _known(name: str, title: str, folder: str, suffix: str) -> Known:
    images = Download((), f"{folder}/images/<uuid>.{suffix}; give --data the folder {folder} alone", RELEASE)
    terms = "those of its download page; not seen"
    return Known(name, title, TEXT_IMAGE, ("all",), {}, (CAPTIONS, images), terms, load, unverified=("all",))


KNOWN = (
    _known("pubmed", "PubMed of ARCH", "pubmed_set", "jpg"),
    _known("bookset", "BookSet of ARCH", "books_set", "png"),
)
