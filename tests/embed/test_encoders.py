"""Encoders other than dual ones: of pictures alone, of prompts, and of libraries that may be installed."""

import json
import sys
from importlib import import_module, util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import unhub
from tests import media, tiny_encoders
from tests.embed.test_embed import CLOSE, TEXTS, rows_of, unit_of
from tests.tiny_encoders import Toy
from unhub.embed.hub import loading

pytestmark = pytest.mark.once

PROMPTS = ["a picture with the {}", "the {} in blue", "a {}"]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Return a folder of three pictures."""
    (tmp_path / "images").mkdir()
    for number in range(3):
        Image.fromarray(media.colours(number)).save(tmp_path / "images" / f"{number}.png")
    return tmp_path / "images"


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny CLIP."""
    return tiny_encoders.write_clip(tmp_path_factory.mktemp("clip") / "model")


@pytest.mark.parametrize(("name", "output"), [("Dinov2", "class token"), ("ViT", "class token"), ("ResNet", "pooled")])
def test_a_model_of_pictures_alone_gives_the_output_that_its_manifest_states(
    images: Path, tmp_path: Path, name: str, output: str
) -> None:
    folder = tiny_encoders.write_picture_model(tmp_path / name, name)
    made = unhub.embed_images(images, folder, tmp_path / "gallery", batch=2)
    assert made.manifest["settings"]["output"] == output
    transformers = import_module("transformers")
    net, processor = (one.from_pretrained(folder) for one in (transformers.AutoModel, transformers.AutoImageProcessor))
    for number, row in enumerate(rows_of(made)):
        with Image.open(images / f"{number}.png") as picture:
            seen = net(**processor(images=picture, return_tensors="pt"))
        vector = seen.last_hidden_state[:, 0] if output == "class token" else seen.pooler_output.flatten(1)
        np.testing.assert_allclose(row, unit_of(vector), atol=CLOSE)
    spread = np.linalg.norm(rows_of(made)[:, None] - rows_of(made), axis=2)
    assert spread[~np.eye(3, dtype=bool)].min() > 5 * CLOSE, "pictures that all look alike prove nothing"
    with pytest.raises(ValueError, match=rf"model is a {name}Model, which does not embed texts; use a dual encoder"):
        unhub.embed_texts(TEXTS, folder, tmp_path / "captions")
    with pytest.raises(ValueError, match="does not embed texts"):
        unhub.load_encoder(folder, device="cpu").texts(TEXTS)


def test_a_class_token_needs_no_pooler_and_has_one_hash(images: Path, tmp_path: Path) -> None:
    """Many checkpoints lack the pooler; transformers would fill it with random numbers, new ones every time."""
    folder = tiny_encoders.write_picture_model(tmp_path / "vit", "ViT")
    whole = unhub.load_encoder(folder, device="cpu").images([images / "0.png"])
    files = import_module("safetensors.numpy")
    tensors = files.load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if "pooler" not in name}
    assert len(kept) < len(tensors)
    files.save_file(kept, folder / "model.safetensors", {"format": "pt"})
    one, two = (unhub.load_encoder(folder, device="cpu") for _ in range(2))
    assert one.identity == two.identity
    np.testing.assert_array_equal(one.images([images / "0.png"]), whole)
    del kept["layernorm.weight"]
    files.save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"holds no weights for layernorm.weight"):
        unhub.load_encoder(folder)


def test_a_model_that_hides_parts_of_a_picture_at_random_is_refused(images: Path, tmp_path: Path) -> None:
    transformers = import_module("transformers")
    transformers.ViTMAEModel(transformers.ViTMAEConfig(**tiny_encoders.VISION)).save_pretrained(tmp_path / "mae")
    with pytest.raises(ValueError, match="model is a ViTMAEModel, which does not embed images"):
        unhub.embed_images(images, tmp_path / "mae", tmp_path / "gallery")


@pytest.mark.parametrize("batch", [1, 4, 32])
def test_several_texts_of_a_thing_are_averaged_as_unit_vectors(clip: Path, tmp_path: Path, batch: int) -> None:
    things = ["circle", ["red square", "a dark square", "square"], ("blue",)]
    made = unhub.embed_texts(things, clip, tmp_path / "classes", ids=["c", "s", "b"], batch=batch)
    encoder = unhub.load_encoder(clip, device="cpu")
    squares = encoder.texts(["red square", "a dark square", "square"]).mean(axis=0)
    expected = [encoder.texts(["circle"])[0], squares / np.linalg.norm(squares), encoder.texts(["blue"])[0]]
    np.testing.assert_allclose(rows_of(made), expected, atol=CLOSE)
    assert made.vectors.ids.tolist() == ["c", "s", "b"]


def test_each_text_is_put_into_every_prompt(clip: Path, tmp_path: Path) -> None:
    names = ["circle", "square"]
    made = unhub.embed_texts(names, clip, tmp_path / "classes", prompts=PROMPTS)
    groups = [[prompt.replace("{}", name) for prompt in PROMPTS] for name in names]
    by_hand = unhub.embed_texts(groups, clip, tmp_path / "groups")
    np.testing.assert_array_equal(rows_of(made), rows_of(by_hand))
    assert made.manifest["inputs"] == by_hand.manifest["inputs"]
    (tmp_path / "prompts.txt").write_text("\n".join(PROMPTS))
    assert unhub.embed_texts(names, clip, tmp_path / "classes", prompts=tmp_path / "prompts.txt").already
    with pytest.raises(ValueError, match="was made with other inputs"):
        unhub.embed_texts(names, clip, tmp_path / "classes", prompts=PROMPTS[:2])


def test_an_empty_text_is_skipped_with_prompts_too(tmp_path: Path) -> None:
    given: Any = ["red", " ", [], ["blue", ""], ["green", 3]]
    made = unhub.embed_texts(given, Toy(), tmp_path / "classes", prompts=PROMPTS)
    assert made.vectors.ids.tolist() == [0]
    reasons = [one["reason"] for one in made.skipped]
    assert reasons == ["the text is empty", "it has no texts", "the text is empty", "not a text, but int"]


@pytest.mark.parametrize("prompts", [["no gap"], ["{} and {}"], ["a {}", None], [], "prompts.csv"])
def test_prompts_that_have_no_place_for_the_text_are_refused(tmp_path: Path, prompts: Any) -> None:
    with pytest.raises(ValueError, match=r"prompts (must|is empty)"):
        unhub.embed_texts(["red"], Toy(), tmp_path / "classes", prompts=prompts)


@pytest.mark.parametrize(
    ("module", "name", "line"),
    [
        ("sentence_transformers", "sentence-transformers/all-MiniLM-L6-v2", r"sentence-transformers: .*\[sentences\]"),
        ("sentence_transformers", "sentence-transformers:BAAI/bge-m3", r"sentence-transformers: .*\[sentences\]"),
        ("open_clip", "open_clip:ViT-B-32/laion2b_s34b_b79k", r"open_clip_torch: .*\[openclip\]"),
    ],
)
def test_a_library_that_is_absent_is_named_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, line: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"needs {line}"):
        unhub.load_encoder(name)


def write_sentence_model(folder: Path) -> Path:
    """Write a tiny model of sentence-transformers: BERT, the mean of its tokens, and a layer over it."""
    library, transformers = import_module("sentence_transformers"), import_module("transformers")
    import_module("torch").manual_seed(0)
    plain = folder.with_name("bert")
    small = {name: value for name, value in tiny_encoders.TEXT.items() if not name.endswith("token_id")}
    transformers.BertModel(transformers.BertConfig(**small)).save_pretrained(plain)
    tiny_encoders.make_tokenizer(model_max_length=tiny_encoders.LONGEST).save_pretrained(plain)
    modules = library.sentence_transformer.modules
    words = library.base.modules.Transformer(str(plain))
    over = modules.Dense(16, 8)
    library.SentenceTransformer(modules=[words, modules.Pooling(16), over], device="cpu").save(str(folder))
    return folder


def transformers_files(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the file of weights below a folder that has a pooler, and its tensors."""
    load = import_module("safetensors.numpy").load_file
    found = {path: load(path) for path in folder.rglob("model.safetensors")}
    return next((path, held) for path, held in found.items() if any("pooler" in name for name in held))


def test_a_model_of_sentence_transformers_embeds_texts_as_the_library_does(tmp_path: Path) -> None:
    folder = write_sentence_model(tmp_path / "model")
    long = " ".join(["red"] * 30)
    made = unhub.embed_texts([*TEXTS, long], folder, tmp_path / "captions", batch=2)
    net = import_module("sentence_transformers").SentenceTransformer(str(folder), device="cpu")
    expected = net.encode([*TEXTS, long], normalize_embeddings=True)
    np.testing.assert_allclose(rows_of(made), expected, atol=CLOSE)
    assert made.truncated == 1 and made.vectors.dimensions == 8
    assert made.manifest["model"]["type"] == "SentenceTransformer"
    assert unhub.embed_texts([*TEXTS, long], f"sentence-transformers:{folder}", tmp_path / "captions").already
    bert = transformers_files(tmp_path / "model")
    kept = {name: tensor for name, tensor in bert[1].items() if "pooler" not in name}
    assert len(kept) < len(bert[1])
    import_module("safetensors.numpy").save_file(kept, bert[0], {"format": "pt"})
    assert unhub.embed_texts([*TEXTS, long], folder, tmp_path / "captions").already, "the pooler is not used"
    with pytest.raises(ValueError, match="model is a SentenceTransformer, which does not embed images"):
        unhub.embed_images([tmp_path / "a.png"], folder, tmp_path / "gallery")


def test_a_torchvision_that_does_not_fit_torch_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = 'raise RuntimeError("operator torchvision::nms does not exist")'
    for library, content in (("torchvision", broken), ("open_clip", "import torchvision")):
        (tmp_path / library).mkdir()
        (tmp_path / library / "__init__.py").write_text(content)
        monkeypatch.delitem(sys.modules, library, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    said = r"torchvision does not fit .* \(operator torchvision::nms does not exist\); install torchvision from the"
    with pytest.raises(ImportError, match=f"open_clip cannot be imported: {said}"):
        unhub.load_encoder("open_clip:ViT-B-32/laion2b_s34b_b79k", device="cpu")
    with pytest.raises(ImportError, match=f"'clip' cannot be loaded: {said}"), loading("clip"):
        raise ModuleNotFoundError("Could not import module 'CLIPModel'.")  # as transformers words it


@pytest.mark.skipif(util.find_spec("open_clip") is None, reason="open_clip is not installed: the extra openclip has it")
def test_a_model_of_open_clip_embeds_as_the_library_does(images: Path, tmp_path: Path) -> None:
    library, torch = import_module("open_clip"), import_module("torch")
    towers = {
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 8},
        "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
    }
    (tmp_path / "tiny-clip.json").write_text(json.dumps({"embed_dim": 12, **towers}))
    library.add_model_config(tmp_path / "tiny-clip.json")
    torch.manual_seed(0)
    net, _, preprocess = library.create_model_and_transforms("tiny-clip")
    torch.save(net.state_dict(), tmp_path / "weights.pt")
    name = f"open_clip:tiny-clip/{tmp_path / 'weights.pt'}"
    net.eval()
    long = " ".join(["red"] * 30)
    captions = unhub.embed_texts([*TEXTS, long], name, tmp_path / "captions", batch=4)
    tokens = library.get_tokenizer("tiny-clip")([*TEXTS, long])
    np.testing.assert_allclose(rows_of(captions), net.encode_text(tokens, normalize=True).detach().numpy(), atol=CLOSE)
    assert captions.truncated == 1
    gallery = unhub.embed_images(images, name, tmp_path / "gallery", batch=2)
    for number, row in enumerate(rows_of(gallery)):
        with Image.open(images / f"{number}.png") as picture:
            pixels = preprocess(picture.convert("RGB"))[None]
        np.testing.assert_allclose(row, unit_of(net.encode_image(pixels)), atol=CLOSE)
    with pytest.raises(ValueError, match="model is a CLIP, which does not embed sounds"):
        unhub.embed_sounds([tmp_path / "a.wav"], name, tmp_path / "heard")
    with pytest.raises(ValueError, match=r"model 'open_clip:tiny-clip' names no weights; write open_clip:ViT"):
        unhub.load_encoder("open_clip:tiny-clip")
    with pytest.raises(ValueError, match=r"model 'open_clip:no-such/one' cannot be loaded"):
        unhub.load_encoder("open_clip:no-such/one")
