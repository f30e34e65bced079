"""Everything on disk: vectors in the formats people have, and corrections saved whole, checked and never pickled."""

from unhub.files.pictures import find_pictures
from unhub.files.readers import READERS, name_rows, read_as_held, read_ids, read_rows, read_vectors
from unhub.files.relevance import read_relevance, read_run
from unhub.files.saved import load, read_manifest, save
from unhub.files.texts import Texts, read_texts
from unhub.replacing import check_target, replacing

__all__ = [
    "READERS",
    "Texts",
    "check_target",
    "find_pictures",
    "load",
    "name_rows",
    "read_as_held",
    "read_ids",
    "read_manifest",
    "read_relevance",
    "read_rows",
    "read_run",
    "read_texts",
    "read_vectors",
    "replacing",
    "save",
]
