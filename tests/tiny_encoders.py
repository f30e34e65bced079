"""Tiny encoders with random weights, saved as transformers saves them, and an encoder without torch."""

import hashlib
import json
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unhub.arrays import Float32
from unhub.embed.encoder import Encoder, Kind, Prepared
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
    make_tokenizer().save_pretrained(folder)
    crop = {"do_center_crop": True, "crop_size": {"height": SIDE, "width": SIDE}, "size": {"shortest_edge": SIDE}}
    _write_processor(folder, {"image_processor_type": "CLIPImageProcessor", **PROCESSOR, **crop})
    return folder


def write_siglip(folder: Path) -> Path:
    """Write a tiny SigLIP, which wants its texts filled up to one length."""
    transformers, torch = import_module("transformers"), import_module("torch")
    torch.manual_seed(0)
    config = transformers.SiglipConfig(text_config={**TEXT, "projection_size": 16}, vision_config=VISION)
    transformers.SiglipModel(config).save_pretrained(folder)
    make_tokenizer(model_input_names=["input_ids"]).save_pretrained(folder)
    size = {"size": {"height": SIDE, "width": SIDE}, "resample": 3}
    _write_processor(folder, {"image_processor_type": "SiglipImageProcessor", **PROCESSOR, **size})
    return folder


CLAP_RATE = 8000
CLAP_SECONDS = 1  # of the sounds that the tiny CLAP takes whole
CLAP_TEXT = {**TEXT, "type_vocab_size": 1, "projection_dim": 12}
CLAP_SOUND = {
    "spec_size": 64,
    "num_mel_bins": 64,
    "window_size": 4,
    "patch_size": 4,
    "patch_stride": [4, 4],
    "patch_embeds_hidden_size": 8,
    "hidden_size": 16,
    "depths": [1, 1],
    "num_attention_heads": [1, 2],
    "projection_dim": 12,
    "aff_block_r": 2,
    "num_classes": 4,
}


def write_clap(folder: Path, truncation: str = "rand_trunc") -> Path:
    """Write a tiny CLAP with its tokenizer and feature extractor; truncation: "fusion" or "rand_trunc"."""
    transformers, torch = import_module("transformers"), import_module("torch")
    torch.manual_seed(0)
    fused = {"enable_fusion": truncation == "fusion", "fusion_type": "aff_2d"}
    config = transformers.ClapConfig(
        text_config={**CLAP_TEXT, "max_position_embeddings": LONGEST + 1},  # RoBERTa counts from the padding on
        audio_config={**CLAP_SOUND, **fused},
        projection_dim=12,
    )
    transformers.ClapModel(config).save_pretrained(folder)
    make_tokenizer(model_max_length=LONGEST).save_pretrained(folder)
    transformers.ClapFeatureExtractor(
        sampling_rate=CLAP_RATE,
        max_length_s=CLAP_SECONDS,
        hop_length=160,
        fft_window_size=256,
        frequency_max=4000,
        truncation=truncation,
    ).save_pretrained(folder)
    return folder


def write_picture_model(folder: Path, name: str) -> Path:
    """Write a tiny model of pictures alone: "ViT", "Dinov2" or "ResNet"."""
    transformers, torch = import_module("transformers"), import_module("torch")
    torch.manual_seed(0)
    small = {"embedding_size": 8, "hidden_sizes": [8, 12], "depths": [1, 1]} if name == "ResNet" else VISION
    config = getattr(transformers, f"{name}Config")(**small)
    net = getattr(transformers, f"{name}Model")(config)
    with torch.no_grad():  # as trained ones, so that pictures differ in more than the last digits
        for weights in net.parameters():
            weights.mul_(3 if weights.dim() > 1 and name != "ResNet" else 1)
    net.save_pretrained(folder)
    size = {"size": {"height": SIDE, "width": SIDE}, "resample": 3}
    _write_processor(folder, {"image_processor_type": "ViTImageProcessor", **PROCESSOR, **size})
    return folder


def _write_processor(folder: Path, settings: dict[str, object]) -> None:
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))


def make_tokenizer(**options: object) -> Any:
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
        assert kind in ("images", "texts", "videos", "sounds")

    def settings(self, kind: Kind) -> dict[str, str | int | None]:
        return {"precision": "full"}

    def prepare(self, pictures: "Sequence[Picture]") -> Prepared:
        return {"colours": np.array([np.asarray(one).mean(axis=(0, 1)) for one in pictures], np.float32)}

    @property
    def sampling_rate(self) -> int:
        return CLAP_RATE

    def prepare_sound(self, samples: Float32) -> Prepared:
        return {"loudness": np.array([[samples.std(), 1]], np.float32)}

    def _features(self, kind: Kind, inputs: Prepared) -> Float32:
        (rows,) = inputs.values()
        self.calls += len(rows)
        return np.asarray(rows, np.float32)

    def texts(self, texts: Sequence[str]) -> Float32:
        self.calls += len(texts)
        hashes = [hashlib.blake2b(text.encode(), digest_size=6).digest() for text in texts]
        return np.array([list(one) for one in hashes], np.float32) - 128

    def count_long(self, texts: Sequence[str]) -> int:
        return sum(len(text) > 20 for text in texts)
