"""Data sets of the papers in their official layouts, one file each: load one, or check what of it is there."""

from unhub.datasets.checked import Checked, check
from unhub.datasets.dataset import DataSet, Part, Protocol, Side
from unhub.datasets.known import DATASETS
from unhub.datasets.loading import load

__all__ = ["DATASETS", "Checked", "DataSet", "Part", "Protocol", "Side", "check", "load"]
