"""The network in training: two sides and a head, its loss on a batch and its R@1 on validation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unhub.arrays import spans
from unhub.data.captions import Captions
from unhub.training.batches import NOBODY, Batch, validation_sets
from unhub.training.heads import Weighing
from unhub.training.rows import TrainingRows
from unhub.training.settings import Settings
from unhub.training.towers import TowerSide, encoded

RANKED_SETS = 512  # ranked at a time


@dataclass(frozen=True, eq=False)
class Data:
    """Texts, items and which texts describe which item; `notes` say what was left out."""

    texts: TrainingRows
    items: TrainingRows
    captions: Captions
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Network:
    """Both towers and the head; `modules` holds everything that is trained."""

    text: TowerSide
    item: TowerSide
    head: Weighing
    modules: nn.ModuleDict

    @staticmethod
    def of(text: TowerSide, item: TowerSide, head: Weighing) -> Network:
        """Join towers and a head."""
        modules = nn.ModuleDict({"text": text.module, "item": item.module, "head": head})
        return Network(text, item, head, modules.to(text.device))

    def loss(self, data: Data, batch: Batch, settings: Settings) -> Tensor:
        """Return the sum of the cross-entropies, query to item and item to query, over the batch."""
        with torch.autocast(self.text.device.type, torch.bfloat16, enabled=settings.mixed):
            flat = self.text.unit(data.texts, batch.texts[batch.texts != NOBODY])
            items = self.item.unit(data.items, batch.items)
        queries = self.head(*as_sets(flat, torch.from_numpy(batch.texts != NOBODY).to(flat.device)))
        similarities = queries @ items.T / settings.temperature
        own = torch.arange(len(items), device=items.device)
        return cross_entropy(similarities, own) + cross_entropy(similarities.T, own)

    def recall(self, data: Data, settings: Settings) -> float:
        """Return R@1 in percent, the mean over the numbers of queries used in training.

        It is nan if a vector or a similarity is not finite: a comparison with nan would count as found.
        """
        self.modules.eval()
        texts, items = encoded(self.text, data.texts), encoded(self.item, data.items)
        if not (texts.isfinite().all() and items.isfinite().all()):
            return math.nan
        with torch.no_grad():
            sets = [validation_sets(data.captions, size, settings.seed) for size in settings.sizes]
            recalls = [self._found(texts, items, one) for one in sets]
        return 100 * float(np.mean(recalls))

    def is_sound(self, data: Data, batch: Batch, settings: Settings) -> bool:
        """Return whether the loss of a batch is finite with the weights as they are now."""
        self.modules.eval()
        with torch.no_grad():
            return bool(self.loss(data, batch, settings).isfinite())

    def _found(self, texts: Tensor, items: Tensor, sets: Batch) -> float:
        """Return the share of sets that find their item first; in a tie, the chance that it comes first."""
        total = 0.0
        for start, stop in spans(len(sets.items), RANKED_SETS):
            here = torch.from_numpy(sets.texts[start:stop] != NOBODY).to(texts.device)
            positions = torch.from_numpy(sets.texts[start:stop]).to(texts.device)
            similarities = self.head(*as_sets(texts[positions[here]], here)) @ items.T
            if not similarities.isfinite().all():
                return math.nan
            own = similarities.gather(1, torch.from_numpy(sets.items[start:stop, None]).to(texts.device))
            first = (similarities > own).sum(dim=1) == 0
            total += float((first / (similarities == own).sum(dim=1)).sum())
        return total / len(sets.items)


def as_sets(flat: Tensor, here: Tensor) -> tuple[Tensor, Tensor]:
    """Return queries (sets, k, d) with zeros for missing ones, and the mask of those that exist, (sets, k)."""
    queries = flat.new_zeros(*here.shape, flat.shape[1])
    queries[here] = flat
    return queries, here
