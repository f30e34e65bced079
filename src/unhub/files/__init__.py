"""Everything on disk: vectors in the formats people have; corrections and models whole, checked, never pickled."""

from unhub.atomic import check_target, replacing
from unhub.files.container import CORRECTION_FILE
from unhub.files.corrections import save_correction
from unhub.files.draws import DRAWS_FILE, read_draws, write_draws
from unhub.files.models import MODEL_FILE, save_model
from unhub.files.pictures import find_pictures
from unhub.files.readers import READERS, name_rows, read_as_held, read_ids, read_rows, read_vectors
from unhub.files.relevance import read_relevance, read_run
from unhub.files.saved import is_model, load, read_any_manifest, read_manifest, read_model_manifest, save
from unhub.files.sets import NamedSets, read_sets
from unhub.files.texts import Texts, read_texts
from unhub.files.writers import vector_file

__all__ = [
    "CORRECTION_FILE",
    "DRAWS_FILE",
    "MODEL_FILE",
    "READERS",
    "NamedSets",
    "Texts",
    "check_target",
    "find_pictures",
    "is_model",
    "load",
    "name_rows",
    "read_any_manifest",
    "read_as_held",
    "read_draws",
    "read_ids",
    "read_manifest",
    "read_model_manifest",
    "read_relevance",
    "read_rows",
    "read_run",
    "read_sets",
    "read_texts",
    "read_vectors",
    "replacing",
    "save",
    "save_correction",
    "save_model",
    "vector_file",
    "write_draws",
]
