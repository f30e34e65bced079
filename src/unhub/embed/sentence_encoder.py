"""Models of sentence-transformers: texts with their pooling, prompts and whatever else the model brings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unhub.arrays import Float32
from unhub.embed.encoder import Encoder, Kind, Prepared, Settings, check_several, digest_of, unit_or_zero
from unhub.embed.hub import loading, placing
from unhub.errors import optional

if TYPE_CHECKING:
    from unhub.embed.media import Picture

SENTENCES = "sentence-transformers:"  # before the name of a model of someone else
OWN_MODELS = "sentence-transformers/"  # on the Hugging Face hub
POOLER = "pooler."
MODULES = "modules.json"  # which every model that the library saved has


def is_sentence_model(name: str) -> bool:
    """Say whether sentence-transformers should load a model: one of its own, or a folder that it saved."""
    return name.startswith(OWN_MODELS) or (Path(name) / MODULES).is_file()


class SentenceEncoder(Encoder):
    """A model of sentence-transformers, for texts alone."""

    def check(self, kind: Kind) -> None:
        if kind != "texts":
            raise self.cannot(kind)

    def settings(self, kind: Kind) -> Settings:
        prompts, chosen = self._model.prompts, self._model.default_prompt_name
        return {
            "precision": self._precision,
            "longest": self._longest,
            "modules": digest_of(repr(self._model)),  # the pooling and what follows it
            "prompt": prompts.get(chosen) if chosen is not None else None,
        }

    def _used_weights(self) -> dict[str, Any]:
        # Many checkpoints lack the pooler, which is not used here; random weights in its place would change the hash.
        return {name: tensor for name, tensor in super()._used_weights().items() if POOLER not in name}

    def prepare(self, pictures: Sequence[Picture]) -> Prepared:
        raise self.cannot("images")

    def texts(self, texts: Sequence[str]) -> Float32:
        check_several(texts, "texts", str)
        options = {"batch_size": len(texts), "show_progress_bar": False, "convert_to_tensor": True}
        made = self._run(lambda: self._model.encode(list(texts), **options))
        return unit_or_zero(self._as_rows(made, "encode"))

    def count_long(self, texts: Sequence[str]) -> int:
        if self._longest is None:
            return 0
        whole = self._model.tokenizer(list(texts), verbose=False)["input_ids"]
        return sum(len(tokens) > self._longest for tokens in whole)

    def _features(self, kind: Kind, inputs: Prepared) -> Float32:
        raise self.cannot(kind)

    @property
    def _longest(self) -> int | None:
        """How many tokens of a text the model reads; None if all, as a model of word vectors does."""
        longest = self._model.max_seq_length
        return longest if isinstance(longest, int) else None


def load_sentences(name: str, device: str, half: bool) -> Encoder:
    """Load a model of sentence-transformers by its name on the Hugging Face hub or from a folder."""
    library = optional("sentence_transformers", "sentences", "embedding with sentence-transformers")
    with loading(name):
        net = library.SentenceTransformer(name.removeprefix(SENTENCES), device="cpu")
    with placing(device):
        return SentenceEncoder(name, net.float().eval().to(device), device, half)
