"""Tiny dual encoders with random weights, saved as transformers saves them, and an encoder without torch."""

import hashlib
import json
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unhub.arrays import Float32
from unhub.embed.encoder import Encoder, Kind, Pixels
from unhub.files.embedded import Encoded

if TYPE_CHECKING:
    from unhub.embed.media import Picture

os.environ["HF_HUB_OFFLINE"] = "1"  # no test may ask the network

WORDS = ("a", "the", "red", "green", "blue", "dark", "bright", "square", "circle", "on", "in", "picture", "with")
VOCABULARY = {word: number for number, word in enumerate(["<pad>", "<start>", "<other>", *WORDS, "<end>"])}
END = VOCABULARY["<end>"]
LONGEST = 12
SIDE = 32

TEXT = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": len(VOCABULARY),
    "max_position_embeddings": LONGEST,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": END,
}
VISION = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": SIDE,
    "patch_size": 8,
}
PROCESSOR = {"do_resize": True, "do_rescale": True, "do_normalize": True, "do_convert_rgb": True}


def write_clip(folder: Path, seed: int = 0) -> Path:
    """Write a tiny CLIP with its tokenizer and processor, as `save_pretrained` does."""
    transformers, torch = import_module("transformers"), import_module("torch")
    torch.manual_seed(seed)
    config = transformers.CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=12)
    transformers.CLIPModel(config).save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    crop = {"do_center_crop": True, "crop_size": {"height": SIDE, "width": SIDE}, "size": {"shortest_edge": SIDE}}
    _write_processor(folder, {"image_processor_type": "CLIPImageProcessor", **PROCESSOR, **crop})
    return folder


def write_siglip(folder: Path) -> Path:
    """Write a tiny SigLIP, which wants its texts filled up to one length."""
    transformers, torch = import_module("transformers"), import_module("torch")
    torch.manual_seed(0)
    config = transformers.SiglipConfig(text_config={**TEXT, "projection_size": 16}, vision_config=VISION)
    transformers.SiglipModel(config).save_pretrained(folder)
    _tokenizer(model_input_names=["input_ids"]).save_pretrained(folder)
    size = {"size": {"height": SIDE, "width": SIDE}, "resample": 3}
    _write_processor(folder, {"image_processor_type": "SiglipImageProcessor", **PROCESSOR, **size})
    return folder


def _write_processor(folder: Path, settings: dict[str, object]) -> None:
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))


def _tokenizer(**options: object) -> Any:
    tokenizers, transformers = import_module("tokenizers"), import_module("transformers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(VOCABULARY, unk_token="<other>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.post_processor = tokenizers.processors.TemplateProcessing(
        single="<start> $A <end>", special_tokens=[("<start>", 1), ("<end>", END)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>",
        bos_token="<start>",
        eos_token="<end>",
        unk_token="<other>",
        **options,
    )


class Toy(Encoder):
    """An encoder without torch, which counts what it embeds: texts as hashes, pictures as their mean colours."""

    def __init__(self, name: str = "toy") -> None:
        self.name, self.calls = name, 0

    @property
    def identity(self) -> Encoded:
        return {"name": self.name, "type": "Toy", "digest": self.name}

    def check(self, kind: Kind) -> None:
        assert kind in ("images", "texts", "videos")

    def settings(self, kind: Kind) -> dict[str, str | int | None]:
        return {"precision": "full"}

    def prepare(self, pictures: "Sequence[Picture]") -> Pixels:
        return {"colours": np.array([np.asarray(one).mean(axis=(0, 1)) for one in pictures], np.float32)}

    def pictures(self, prepared: Sequence[Pixels]) -> Float32:
        self.calls += len(prepared)
        return np.array([one["colours"].mean(axis=0) for one in prepared], np.float32)

    def texts(self, texts: Sequence[str]) -> Float32:
        self.calls += len(texts)
        hashes = [hashlib.blake2b(text.encode(), digest_size=6).digest() for text in texts]
        return np.array([list(one) for one in hashes], np.float32) - 128

    def count_long(self, texts: Sequence[str]) -> int:
        return sum(len(text) > 20 for text in texts)
