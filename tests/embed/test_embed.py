"""Embedding: what transformers gives for each input alone, whatever the batch; broken inputs aside."""

import json
import logging
import shutil
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageOps

import unhub
from tests import media, tiny_encoders
from tests.tiny_encoders import LONGEST, Toy
from unhub.arrays import Float32
from unhub.embed.media import open_image, open_video
from unhub.embed.sources import kind_of

pytestmark = pytest.mark.once

CLOSE = 6e-4  # of a unit vector in float16
TEXTS = ["a red square", "the dark circle on a bright picture", "blue", "a green picture with a strange thing", "in"]


@pytest.fixture(scope="module", params=["clip", "siglip"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny model."""
    write: dict[str, Callable[[Path], Path]] = {"clip": tiny_encoders.write_clip, "siglip": tiny_encoders.write_siglip}
    return write[request.param](tmp_path_factory.mktemp(request.param) / "model")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny CLIP."""
    return tiny_encoders.write_clip(tmp_path_factory.mktemp("one") / "model")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    media.write_images(tmp_path / "images")
    return tmp_path / "images"


def rows_of(made: unhub.Embedded) -> NDArray[np.float64]:
    """Return the vectors that were written."""
    assert made.vectors.rows.dtype == np.float16
    return np.asarray(made.vectors.rows[:], np.float64)


def unit_of(features: Any) -> NDArray[np.float64]:
    """Return what a model gives as one unit vector."""
    vector = getattr(features, "pooler_output", features).detach().double().numpy()[0]
    return np.asarray(vector / np.linalg.norm(vector))


class ByHand:
    """Transformers called on one input at a time."""

    def __init__(self, folder: Path) -> None:
        transformers = import_module("transformers")
        self.net = transformers.AutoModel.from_pretrained(folder)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.processor = transformers.AutoImageProcessor.from_pretrained(folder)
        self.fill = {"padding": "max_length"} if "Siglip" in type(self.net).__name__ else {}

    def image(self, picture: Image.Image) -> NDArray[np.float64]:
        pixels = self.processor(images=picture, return_tensors="pt")["pixel_values"]
        return unit_of(self.net.get_image_features(pixel_values=pixels))

    def text(self, text: str) -> NDArray[np.float64]:
        tokens = self.tokenizer(text, max_length=LONGEST, truncation=True, return_tensors="pt", **self.fill)
        wanted = {name: tokens[name] for name in ("input_ids", "attention_mask") if name in tokens}
        return unit_of(self.net.get_text_features(**wanted))


@pytest.mark.parametrize("batch", [1, 3, 32])
def test_images_are_embedded_as_transformers_does_one_by_one(
    model: Path, images: Path, tmp_path: Path, batch: int
) -> None:
    made = unhub.embed_images(images, model, tmp_path / "gallery", batch=batch)
    hand = ByHand(model)
    names = sorted(path.relative_to(images).as_posix() for path in images.rglob("*.*") if path.name[0] not in ".n")
    assert made.vectors.ids.tolist() == names
    assert "more/deep/print.tiff" in names
    for name, row in zip(names, rows_of(made), strict=True):
        with Image.open(images / name) as opened:
            expected = hand.image(ImageOps.exif_transpose(opened).convert("RGBA").convert("RGB"))
        np.testing.assert_allclose(row, expected, atol=CLOSE, err_msg=name)
    assert made.skipped == []
    spread = np.linalg.norm(rows_of(made)[:, None] - rows_of(made), axis=2)
    assert spread[~np.eye(8, dtype=bool)].min() > 10 * CLOSE, "pictures that all look alike prove nothing"


@pytest.mark.parametrize("batch", [1, 2, 32])
def test_texts_are_embedded_as_transformers_does_one_by_one(model: Path, tmp_path: Path, batch: int) -> None:
    made = unhub.embed_texts(TEXTS, model, tmp_path / "captions", batch=batch)
    hand = ByHand(model)
    np.testing.assert_allclose(rows_of(made), [hand.text(text) for text in TEXTS], atol=CLOSE)
    assert made.vectors.ids.tolist() == [0, 1, 2, 3, 4]


def test_videos_are_the_mean_of_unit_frames(model: Path, tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    for name, length in (("long.mp4", 40), ("short.mkv", 5)):
        media.write_video(tmp_path / "videos" / name, length)
    made = unhub.embed_videos(tmp_path / "videos", model, tmp_path / "clips", batch=9)
    hand = ByHand(model)
    for name, row in zip(("long.mp4", "short.mkv"), rows_of(made), strict=True):
        frames = _all_frames(tmp_path / "videos" / name)
        middles = [int((part + 0.5) * len(frames) / 8) for part in range(8)]
        mean = np.mean([hand.image(frames[at]) for at in middles], axis=0)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=CLOSE)
    assert made.vectors.ids.tolist() == ["long.mp4", "short.mkv"]
    assert made.manifest["settings"]["frames"] == 8


def _all_frames(path: Path) -> list[Image.Image]:
    with import_module("av").open(str(path)) as container:
        return [frame.to_image() for frame in container.decode(video=0)]


@pytest.mark.parametrize("far", [0, 1, 100])
@pytest.mark.parametrize(("frames", "wanted"), [(40, [2, 7, 12, 17, 22, 27, 32, 37]), (4, [0, 0, 1, 1, 2, 2, 3, 3])])
def test_the_frames_of_a_video_are_the_middles_of_equal_parts(
    tmp_path: Path, frames: int, wanted: list[int], far: float
) -> None:
    path = media.write_video(tmp_path / "one.mp4", frames)
    assert media.numbers_of(open_video(path, far=far)) == wanted
    assert media.numbers_of(open_video(path, frames=1, far=far)) == [frames // 2]


def test_a_video_that_does_not_tell_its_length_is_counted(tmp_path: Path) -> None:
    path = media.write_video(tmp_path / "one.m4v", 40, form="m4v")
    with import_module("av").open(str(path)) as container:
        assert container.streams.video[0].duration is None
        assert container.duration is None
    assert media.numbers_of(open_video(path)) == [2, 7, 12, 17, 22, 27, 32, 37]


def test_a_video_without_an_index_is_decoded_where_seeking_fails(tmp_path: Path) -> None:
    path = media.write_video(tmp_path / "one.ts", 40, codec="mpeg2video")
    assert media.numbers_of(open_video(path, far=0)) == [2, 7, 12, 17, 22, 27, 32, 37]


@pytest.mark.parametrize("far", [0, 100])
def test_a_video_that_breaks_off_is_not_taken_for_whole(tmp_path: Path, far: float) -> None:
    path = media.write_video(tmp_path / "one.mp4", 40, options={"movflags": "faststart"})
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b"mdat") + (len(content) - content.index(b"mdat")) // 2])
    with pytest.raises(ValueError, match=r"it is cut off: the last frame is at \d\.\d s, one is needed at [23]\.\d s"):
        open_video(path, far=far)


def test_a_video_is_turned_as_its_file_says(tmp_path: Path) -> None:
    path = media.write_video(tmp_path / "one.mp4", 10)
    media.turn_video(path)
    (frame,) = open_video(path, frames=1)
    assert frame.size == (48, 64)
    rows = np.asarray(frame).mean(axis=(1, 2))
    assert rows[:24].mean() > 1.5 * rows[40:].mean(), "what was dark on the right is dark below"


def test_an_image_is_turned_as_its_exif_data_says(images: Path) -> None:
    (picture,) = open_image(images / "turned.JPG")
    assert picture.size == (40, 52)


def test_an_image_of_16_bits_is_not_white(tmp_path: Path) -> None:
    wide = np.linspace(0, 65_535, 48 * 48).reshape(48, 48).astype(np.uint16)
    Image.fromarray(wide).save(tmp_path / "deep.png")
    (picture,) = open_image(tmp_path / "deep.png")
    assert picture.mode == "RGB"
    np.testing.assert_allclose(np.asarray(picture)[:, :, 1], wide / 256, atol=1)


@pytest.mark.parametrize("size", [(1, 1), (3, 50), (50, 3), (1, 300)])
def test_an_image_of_an_odd_size_is_embedded_all_the_same(clip: Path, tmp_path: Path, size: tuple[int, int]) -> None:
    colour = (200, 30, 90)
    Image.new("RGB", size, colour).save(tmp_path / "odd.png")
    made = unhub.embed_images([tmp_path / "odd.png"], clip, tmp_path / "gallery")
    assert made.skipped == []
    np.testing.assert_allclose(rows_of(made)[0], ByHand(clip).image(Image.new("RGB", (60, 60), colour)), atol=CLOSE)


def test_broken_files_are_skipped_and_listed(clip: Path, images: Path, tmp_path: Path) -> None:
    whole = unhub.embed_images(images, clip, tmp_path / "whole").vectors
    content = (images / "plain.jpg").read_bytes()
    (images / "cut.jpg").write_bytes(content[: len(content) // 2])
    (images / "text.png").write_text("this is no picture")
    (images / "empty.webp").write_bytes(b"")
    (images / "gone.png").symlink_to("nowhere.png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = unhub.embed_images(images, clip, tmp_path / "gallery", batch=3)
    assert made.vectors.ids.tolist() == whole.ids.tolist()
    np.testing.assert_array_equal(rows_of(made), whole.rows[:])
    reasons = {str(one["id"]): one["reason"] for one in made.skipped}
    assert list(reasons) == ["cut.jpg", "empty.webp", "gone.png", "text.png"]
    assert "truncated" in reasons["cut.jpg"].lower()
    assert reasons["empty.webp"] == "the file is empty"
    assert reasons["gone.png"] == "No such file or directory"
    assert "cannot identify image file" in reasons["text.png"]
    assert made.manifest["inputs"]["count"] == 12
    assert json.loads((tmp_path / "gallery" / "manifest.json").read_text()) == made.manifest


def test_broken_videos_are_skipped_and_listed(clip: Path, tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    content = media.write_video(folder / "good.mp4", 20).read_bytes()
    (folder / "cut.mp4").write_bytes(content[: len(content) // 2])
    (folder / "empty.mp4").write_bytes(b"")
    (folder / "text.avi").write_text("this is no video" * 100)
    made = unhub.embed_videos(folder, clip, tmp_path / "clips", frames=4)
    assert made.vectors.ids.tolist() == ["good.mp4"]
    assert [one["id"] for one in made.skipped] == ["cut.mp4", "empty.mp4", "text.avi"]
    assert made.skipped[0]["reason"] == "Invalid data found when processing input"


def test_where_all_are_broken_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name in ("a.png", "b.jpg"):
        (tmp_path / "images" / name).write_text("no")
    with pytest.raises(ValueError, match=r"none of 2 images could be embedded; the first, 'a.png': cannot identify"):
        unhub.embed_images(tmp_path / "images", Toy(), tmp_path / "gallery", batch=1)
    assert [path.name for path in tmp_path.iterdir()] == ["images"]


def test_a_row_that_is_not_finite_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def holed(texts: list[str]) -> Float32:
        return np.array([[0, 0] if "square" in text else [0.6, 0.8] for text in texts], np.float32)

    toy = Toy()
    monkeypatch.setattr(toy, "texts", holed)
    made = unhub.embed_texts(["", *TEXTS], toy, tmp_path / "captions")
    assert made.skipped == [
        {"id": 0, "reason": "the text is empty"},
        {"id": 1, "reason": "the model gives no finite vector for it"},
    ]
    assert made.vectors.ids.tolist() == [2, 3, 4, 5]


def test_what_is_no_text_is_skipped(tmp_path: Path) -> None:
    given: Any = ["red", None, b"blue", 3.5]
    made = unhub.embed_texts(given, Toy(), tmp_path / "captions")
    assert made.vectors.ids.tolist() == [0]
    reasons = [one["reason"] for one in made.skipped]
    assert reasons == ["not a text, but NoneType", "not a text, but bytes", "not a text, but float"]
    with pytest.raises(ValueError, match="none of 1 texts could be embedded; the first, 0: not a text, but NoneType"):
        unhub.embed_texts(given[1:2], Toy(), tmp_path / "none")


@pytest.mark.parametrize("batch", [1, 3, 32])
def test_pictures_that_the_model_does_not_take_are_skipped(model: Path, tmp_path: Path, batch: int) -> None:
    """A processor that does not resize gives pictures of any shape."""
    folder, images = tmp_path / "model", tmp_path / "images"
    shutil.copytree(model, folder)
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").write_text(
        json.dumps({**settings, "do_resize": False, "do_center_crop": False})
    )
    images.mkdir()
    sizes = {"a": (32, 32), "b": (48, 40), "c": (32, 32), "d": (40, 48), "e": (32, 32)}
    for number, (name, size) in enumerate(sizes.items()):
        Image.new("RGB", size, (40 * number, 200 - 30 * number, 90)).save(images / f"{name}.png")
    made = unhub.embed_images(images, folder, tmp_path / "gallery", batch=batch)
    assert made.vectors.ids.tolist() == ["a.png", "c.png", "e.png"]
    assert [one["id"] for one in made.skipped] == ["b.png", "d.png"]
    assert all("size" in one["reason"] and "\n" not in one["reason"] for one in made.skipped)
    plain = [images / f"{name}.png" for name in "ace"]
    np.testing.assert_allclose(rows_of(made), unhub.load_encoder(model, device="cpu").images(plain), atol=CLOSE)


def test_too_little_memory_is_no_fault_of_the_input(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = unhub.load_encoder(clip, device="cpu")

    def grow(**_: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(encoder._model, "get_text_features", grow)
    with pytest.raises(MemoryError, match="Try a smaller batch"):
        unhub.embed_texts(TEXTS, encoder, tmp_path / "captions")


def test_long_texts_are_cut_and_counted_and_empty_ones_skipped(clip: Path, tmp_path: Path) -> None:
    long = " ".join(["red"] * 30)
    just = " ".join(["red"] * (LONGEST - 2))  # and a start and an end
    (tmp_path / "captions.txt").write_text(f"a red square\n\n{long}\n{just}\n \t\nblue\n")
    made = unhub.embed_texts(tmp_path / "captions.txt", clip, tmp_path / "captions")
    assert made.truncated == 1
    assert made.vectors.ids.tolist() == [0, 2, 3, 5]
    assert [one["id"] for one in made.skipped] == [1, 4]
    np.testing.assert_array_equal(rows_of(made)[1], rows_of(made)[2])


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_texts_are_read_from_a_column(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    names = [f"c{number}" for number in range(len(TEXTS))]
    if suffix == ".parquet":
        pa = import_module("pyarrow")
        import_module("pyarrow.parquet").write_table(pa.table({"name": names, "caption": TEXTS}), path)
    elif suffix == ".jsonl":
        lines = (json.dumps({"name": name, "caption": text}) for name, text in zip(names, TEXTS, strict=True))
        path.write_text("\n".join(lines))
    else:
        path.write_text("name,caption\n" + "".join(f"{one},{text}\n" for one, text in zip(names, TEXTS, strict=True)))
    expected = Toy().texts(TEXTS).astype(np.float16)
    made = unhub.embed_texts(path, Toy(), tmp_path / "named", column="caption", id_column="name")
    np.testing.assert_array_equal(rows_of(made), expected)
    assert made.vectors.ids.tolist() == names
    numbered = unhub.embed_texts(path, Toy(), tmp_path / "numbered", column="caption")
    assert numbered.vectors.ids.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="`text` is required"):
        unhub.embed_texts(path, Toy(), tmp_path / "other")


def test_ids_that_repeat_are_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "captions.csv").write_text("image,text\n1,a\n1,b\n")
    toy = Toy()
    with pytest.raises(ValueError, match="repeated ids"):
        unhub.embed_texts(tmp_path / "captions.csv", toy, tmp_path / "captions", id_column="image")
    assert toy.calls == 0


def test_texts_in_memory_may_have_ids(tmp_path: Path) -> None:
    made = unhub.embed_texts(["red", "blue"], Toy(), tmp_path / "captions", ids=["r", "b"])
    assert made.vectors.ids.tolist() == ["r", "b"]
    with pytest.raises(ValueError, match="ids has 1 id, 2 are needed"):
        unhub.embed_texts(["red", "blue"], Toy(), tmp_path / "others", ids=["r"])
    with pytest.raises(ValueError, match="only a table has columns"):
        unhub.embed_texts(["red", "blue"], Toy(), tmp_path / "others", column="caption")
    with pytest.raises(ValueError, match="texts is empty; give at least one text"):
        unhub.embed_texts([], Toy(), tmp_path / "others")


def test_what_a_folder_holds_is_told_by_the_names_in_it(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    with pytest.raises(ValueError, match="holds neither images"):
        kind_of(tmp_path)
    (tmp_path / "below" / "one.PNG").touch()
    assert kind_of(tmp_path) == "images"
    with pytest.raises(ValueError, match="holds no videos"):
        unhub.embed_videos(tmp_path, Toy(), tmp_path.with_name("out"))
    (tmp_path / "two.mp4").touch()
    with pytest.raises(ValueError, match=r"kind is needed, since .* holds images and videos; give one of them"):
        kind_of(tmp_path)
    for name, kind in (("a.txt", "texts"), ("b.Parquet", "texts"), ("c.webm", "videos"), ("d.jpeg", "images")):
        (tmp_path / name).touch()
        assert kind_of(tmp_path / name) == kind
    (tmp_path / "e.xyz").touch()
    with pytest.raises(
        ValueError,
        match=r"kind is needed, since the name .* does not say what it holds; give images, texts, videos or sounds",
    ):
        kind_of(tmp_path / "e.xyz")
    with pytest.raises(FileNotFoundError):
        kind_of(tmp_path / "absent.png")


def test_the_output_may_not_lie_within_the_inputs(images: Path) -> None:
    with pytest.raises(ValueError, match=r"output .* is inside the folder of the inputs"):
        unhub.embed_images(images, Toy(), images / "gallery")


def test_a_loaded_encoder_serves_again_and_embeds_queries(clip: Path, images: Path, tmp_path: Path) -> None:
    encoder = unhub.load_encoder(clip, device="cpu")
    made = unhub.embed_images(images, encoder, tmp_path / "gallery")
    assert repr(encoder) == f"<Encoder {clip}: CLIPModel on cpu, full precision>"
    assert (
        repr(made)
        == f"<Embedded {tmp_path / 'gallery'}: {len(made.vectors)} images, {made.vectors.dimensions} dimensions>"
    )
    assert not made.already
    assert unhub.embed_images(images, encoder, tmp_path / "gallery").already
    np.testing.assert_allclose(encoder.images([images / "plain.jpg"])[0], rows_of(made)[6], atol=CLOSE)
    queries = encoder.texts(TEXTS[:2])
    np.testing.assert_allclose(queries, [ByHand(clip).text(text) for text in TEXTS[:2]], atol=1e-6)
    with pytest.raises(ValueError, match="model is loaded already"):
        unhub.embed_images(images, encoder, tmp_path / "other", device="cpu")


def test_half_precision_comes_close(clip: Path, images: Path, tmp_path: Path) -> None:
    full = unhub.embed_images(images, clip, tmp_path / "full", precision="full")
    half = unhub.embed_images(images, clip, tmp_path / "half", precision="half")
    assert [one.manifest["settings"]["precision"] for one in (full, half)] == ["full", "half"]
    np.testing.assert_allclose(rows_of(half), rows_of(full), atol=5e-3)
    assert (rows_of(half) != rows_of(full)).any()


def test_a_model_stored_in_half_precision_runs_in_full(clip: Path, tmp_path: Path) -> None:
    transformers = import_module("transformers")
    for file in clip.iterdir():
        (tmp_path / "half").mkdir(exist_ok=True)
        (tmp_path / "half" / file.name).write_bytes(file.read_bytes())
    transformers.AutoModel.from_pretrained(clip).half().save_pretrained(tmp_path / "half")
    rows = unhub.load_encoder(tmp_path / "half", device="cpu").texts(TEXTS)
    hand = ByHand(tmp_path / "half")
    hand.net = hand.net.float()
    np.testing.assert_allclose(rows, [hand.text(text) for text in TEXTS], atol=1e-6)


def test_a_model_without_some_of_its_weights_is_refused(clip: Path, tmp_path: Path) -> None:
    numpy_files = import_module("safetensors.numpy")
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in clip.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    tensors = numpy_files.load_file(broken / "model.safetensors")
    del tensors["text_projection.weight"]
    numpy_files.save_file(tensors, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"model .* holds no weights for text_projection.weight .* random"):
        unhub.load_encoder(broken)
    (broken / "model.safetensors").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"model .* cannot be loaded"):
        unhub.load_encoder(broken)


def test_a_model_that_is_no_dual_encoder_is_refused(tmp_path: Path) -> None:
    transformers = import_module("transformers")
    config = transformers.BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, vocab_size=9
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    with pytest.raises(ValueError, match="model is a BertModel, which does not embed texts"):
        unhub.embed_texts(TEXTS, tmp_path / "bert", tmp_path / "captions")


def test_a_model_that_cannot_be_found_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"model 'no-one/nothing' cannot be loaded"):
        unhub.load_encoder("no-one/nothing")


@pytest.mark.parametrize("name", ["/nowhere/model", "./nowhere", "../nowhere"])
def test_a_folder_that_is_not_there_is_said_to_be_none(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^model '{name}' is no folder; name one that a model was saved to"):
        unhub.load_encoder(name)


def test_the_retries_of_a_download_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("huggingface_hub.utils._http")
    spoke: list[bool] = []

    def fail(*given: Any, **options: Any) -> None:
        spoke.append(logger.isEnabledFor(logging.WARNING))
        raise OSError("no network\nand more on that")

    before = logging.getLogger("huggingface_hub").level
    monkeypatch.setattr(import_module("transformers").AutoModel, "from_pretrained", fail)
    with pytest.raises(ValueError, match=r"^model 'no-one/nothing' cannot be loaded: no network$"):
        unhub.load_encoder("no-one/nothing")
    assert spoke == [False]
    assert logging.getLogger("huggingface_hub").level == before


def test_a_device_that_is_not_there_is_said_so(clip: Path) -> None:
    with pytest.raises(ValueError, match=r"^device must be one that torch can use here, got 'toaster'"):
        unhub.load_encoder(clip, device="toaster")
    absent = "xpu" if import_module("torch").cuda.is_available() else "cuda:7"
    with pytest.raises(ValueError, match=f"^device '{absent}' cannot be used here: "):
        unhub.load_encoder(clip, device=absent)


@pytest.mark.parametrize(
    ("argument", "value"), [("batch", 0), ("batch", 1.5), ("frames", 0), ("threads", 0), ("precision", "quarter")]
)
def test_an_argument_out_of_range_is_named(clip: Path, tmp_path: Path, argument: str, value: Any) -> None:
    media.write_video(tmp_path / "one.mp4", 3)
    with pytest.raises(ValueError, match=f"{argument} must be .* got {value!r}"):
        unhub.embed_videos(tmp_path / "one.mp4", clip, tmp_path / "clips", **{argument: value})
    assert [path.name for path in tmp_path.iterdir()] == ["one.mp4"]


@pytest.mark.parametrize(
    ("absent", "package", "call"),
    [
        ("torch", "torch", "load_encoder"),
        ("transformers", "transformers", "load_encoder"),
        ("PIL.Image", "Pillow", "images"),
        ("av", "av", "videos"),
    ],
)
def test_an_absent_library_gives_the_line_that_installs_it(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: str, package: str, call: str
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    calls: dict[str, Callable[[], object]] = {
        "load_encoder": lambda: unhub.load_encoder("any"),
        "images": lambda: unhub.embed_images(images, Toy(), tmp_path / "out"),
        "videos": lambda: unhub.embed_videos(images, Toy(), tmp_path / "out"),
    }
    with pytest.raises(ImportError, match=rf"needs {package}: .*pip install .*\[embed\]"):
        calls[call]()


def test_version_4_of_transformers_returned_the_vectors_themselves(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = unhub.load_encoder(clip, device="cpu")
    expected = encoder.texts(TEXTS)
    as_object = encoder._model.get_text_features

    def as_tensor(input_ids: Any, attention_mask: Any = None) -> Any:
        made = as_object(input_ids=input_ids, attention_mask=attention_mask)
        return getattr(made, "pooler_output", made)

    monkeypatch.setattr(encoder._model, "get_text_features", as_tensor)
    np.testing.assert_array_equal(encoder.texts(TEXTS), expected)
    monkeypatch.setattr(encoder._model, "get_text_features", lambda input_ids: as_tensor(input_ids)[None])
    with pytest.raises(ValueError, match=r"get_text_features of CLIPModel gives Tensor of shape \(1, 5, 12\)"):
        encoder.texts(TEXTS)


@pytest.mark.parametrize("given", ["a red square", [], ["a red square", None], None])
def test_an_encoder_takes_a_list_of_texts_and_no_single_one(clip: Path, given: Any) -> None:
    encoder = unhub.load_encoder(clip, device="cpu")
    with pytest.raises(ValueError, match="texts must be a list"):
        encoder.texts(given)


def test_an_encoder_takes_a_list_of_paths_and_no_single_one(clip: Path) -> None:
    with pytest.raises(ValueError, match=r"paths must be a list .*; put it into a list"):
        unhub.load_encoder(clip, device="cpu").images("a.png")
