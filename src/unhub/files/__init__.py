"""Everything on disk: vectors in the formats people have, and corrections saved whole, checked and never pickled."""

from unhub.files.readers import READERS, read_ids, read_vectors
from unhub.files.replacing import check_target, replacing
from unhub.files.saved import load, read_manifest, save

__all__ = ["READERS", "check_target", "load", "read_ids", "read_manifest", "read_vectors", "replacing", "save"]
