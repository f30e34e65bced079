"""Model: run a trained model with numpy alone: towers into a joint space, and a head that weighs several queries."""

from unhub.model.head_forward import HEADS, Head
from unhub.model.record import Epoch, Training, Tried
from unhub.model.tower_forward import PREPARED, TOWER_ARRAYS, TOWERS, Preparation, Tower
from unhub.model.trained import Model, TowerLike, Towers

__all__ = [
    "HEADS",
    "PREPARED",
    "TOWERS",
    "TOWER_ARRAYS",
    "Epoch",
    "Head",
    "Model",
    "Preparation",
    "Tower",
    "TowerLike",
    "Towers",
    "Training",
    "Tried",
]
