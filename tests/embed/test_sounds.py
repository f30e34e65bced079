"""Sounds: decoded, resampled, and embedded as transformers does by hand; long ones the same in every run."""

import warnings
import wave
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import unhub
from tests import media, tiny_encoders
from tests.embed.test_embed import CLOSE, TEXTS, rows_of, unit_of
from tests.tiny_encoders import CLAP_RATE, Toy
from unhub.embed.media import open_sound
from unhub.embed.sources import kind_of
from unhub.embed.transformers_encoder import CROP_SEED

pytestmark = pytest.mark.once

SHORT, LONG = 0.6, 3.2  # seconds; the model takes one


@pytest.fixture(scope="module", params=["rand_trunc", "fusion"])
def clap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny CLAP."""
    return tiny_encoders.write_clap(tmp_path_factory.mktemp("clap") / "model", request.param)


@pytest.fixture
def sounds(tmp_path: Path) -> Path:
    """Return a folder of sounds, short, long and just as long as the model takes, at its rate without loss."""
    folder = tmp_path / "sounds"
    folder.mkdir()
    for seed, (name, seconds) in enumerate({"a.wav": SHORT, "b.flac": LONG, "c.wav": 1.0, "d.wav": 1.01}.items()):
        codec = "flac" if name.endswith("flac") else "pcm_s16le"
        media.write_sound(folder / name, media.tones(seconds, CLAP_RATE, seed=seed), CLAP_RATE, codec)
    return folder


class ByHand:
    """Transformers called on one sound or text at a time."""

    def __init__(self, folder: Path) -> None:
        transformers = import_module("transformers")
        self.net = transformers.ClapModel.from_pretrained(folder)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.extractor = transformers.ClapFeatureExtractor.from_pretrained(folder)

    def sound(self, samples: NDArray[np.float32], is_longer: bool) -> NDArray[np.float64]:
        np.random.seed(CROP_SEED)  # noqa: NPY002 - the extractor draws from it
        inputs: Any = self.extractor(samples, sampling_rate=CLAP_RATE, return_tensors="pt")
        longer = import_module("torch").tensor([[is_longer]])
        return unit_of(self.net.get_audio_features(input_features=inputs["input_features"], is_longer=longer))

    def text(self, text: str) -> NDArray[np.float64]:
        return unit_of(self.net.get_text_features(**self.tokenizer(text, return_tensors="pt")))


@pytest.mark.parametrize("batch", [1, 3])
def test_sounds_are_embedded_as_transformers_does_one_by_one(
    clap: Path, sounds: Path, tmp_path: Path, batch: int
) -> None:
    made = unhub.embed_sounds(sounds, clap, tmp_path / "heard", batch=batch)
    hand = ByHand(clap)
    expected = [hand.sound(open_sound(sounds / str(name), CLAP_RATE), name == "b.flac") for name in made.vectors.ids]
    np.testing.assert_allclose(rows_of(made), expected, atol=CLOSE)
    assert made.vectors.ids.tolist() == ["a.wav", "b.flac", "c.wav", "d.wav"]
    spread = np.linalg.norm(rows_of(made)[:, None] - rows_of(made), axis=2)
    assert spread[~np.eye(4, dtype=bool)].min() > 5 * CLOSE, "sounds that are all alike prove nothing"
    settings = made.manifest["settings"]
    assert settings["sampling_rate"] == CLAP_RATE and settings["crop_seed"] == CROP_SEED and "processor" in settings


def test_texts_of_clap_are_embedded_as_transformers_does(clap: Path, tmp_path: Path) -> None:
    made = unhub.embed_texts(TEXTS, clap, tmp_path / "captions", batch=2)
    hand = ByHand(clap)
    np.testing.assert_allclose(rows_of(made), [hand.text(text) for text in TEXTS], atol=CLOSE)


def test_a_long_sound_has_one_vector_and_numpys_generator_is_left_alone(clap: Path, sounds: Path) -> None:
    encoder = unhub.load_encoder(clap, device="cpu")
    np.random.seed(7)  # noqa: NPY002 - a user of it
    expected = np.random.random(3)  # noqa: NPY002
    np.random.seed(7)  # noqa: NPY002
    rows = [encoder.sounds([sounds / "b.flac"]) for _ in range(3)]
    np.testing.assert_array_equal(np.random.random(3), expected)  # noqa: NPY002
    np.testing.assert_array_equal(rows[0], rows[1])
    np.testing.assert_array_equal(rows[0], rows[2])


def test_a_sound_is_resampled_and_its_channels_are_averaged(tmp_path: Path) -> None:
    rate = 44_100
    waves = media.tones(1.5, rate, channels=2)
    media.write_sound(tmp_path / "stereo.wav", waves, rate, "pcm_s16le")
    same = open_sound(tmp_path / "stereo.wav", rate)
    np.testing.assert_allclose(same, waves.mean(axis=0), atol=1e-4)
    lower = open_sound(tmp_path / "stereo.wav", CLAP_RATE)
    exact = media.tones(1.5, CLAP_RATE, channels=2).mean(axis=0)
    assert abs(len(lower) - len(exact)) <= 1
    inside = slice(200, len(exact) - 200)  # the ends lack neighbours to filter with
    np.testing.assert_allclose(lower[inside], exact[inside], atol=0.01)


@pytest.mark.parametrize(("name", "codec"), [("one.mp3", "libmp3lame"), ("one.m4a", "aac"), ("one.opus", "libopus")])
def test_a_compressed_sound_comes_close(tmp_path: Path, name: str, codec: str) -> None:
    rate = 48_000
    waves = media.tones(1.2, rate)
    heard = open_sound(media.write_sound(tmp_path / name, waves, rate, codec), rate)
    assert abs(len(heard) - waves.shape[1]) < 0.15 * rate
    level = float(np.sqrt((heard**2).mean() / (waves**2).mean()))
    assert 0.85 < level < 1.15


def test_broken_sounds_are_skipped_and_listed(sounds: Path, tmp_path: Path) -> None:
    content = (sounds / "b.flac").read_bytes()
    (sounds / "cut.flac").write_bytes(content[: len(content) // 3])
    whole = media.write_sound(tmp_path / "whole.wav", media.tones(LONG, CLAP_RATE), CLAP_RATE, "pcm_s16le").read_bytes()
    (sounds / "cut.wav").write_bytes(whole[: len(whole) // 3])
    (sounds / "empty.mp3").write_bytes(b"")
    with wave.open(str(sounds / "none.wav"), "wb") as none:
        none.setparams((1, 2, CLAP_RATE, 0, "NONE", ""))
    (sounds / "text.ogg").write_text("this is no sound" * 100)
    media.write_video(sounds / "silent.mp4", 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = unhub.embed_sounds([*sorted(sounds.iterdir())], Toy(), tmp_path / "heard", batch=2)
    assert [Path(str(one)).name for one in made.vectors.ids] == ["a.wav", "b.flac", "c.wav", "d.wav"]
    reasons = {Path(str(one["id"])).name: one["reason"] for one in made.skipped}
    assert list(reasons) == ["cut.flac", "cut.wav", "empty.mp3", "none.wav", "silent.mp4", "text.ogg"]
    assert "Invalid data" in reasons["cut.flac"] or reasons["cut.flac"].startswith("it is cut off: it has")
    assert reasons["cut.wav"] == "it is cut off: it has 1.1 s of 3.2 s"
    assert reasons["empty.mp3"] == "the file is empty"
    assert reasons["none.wav"] == "the sound is empty"
    assert reasons["silent.mp4"] == "the file has no sound"
    assert reasons["text.ogg"] in ("End of file", "Invalid data found when processing input")


def test_sounds_that_were_stopped_continue_where_they_were(sounds: Path, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    first, second, whole = Toy(), Toy(), Toy()
    with pytest.raises(KeyboardInterrupt):
        unhub.embed_sounds(sounds, first, tmp_path / "heard", batch=3, progress=stop)
    made = unhub.embed_sounds(sounds, second, tmp_path / "heard", batch=3)
    assert (first.calls, second.calls) == (3, 1)
    np.testing.assert_array_equal(rows_of(made), rows_of(unhub.embed_sounds(sounds, whole, tmp_path / "whole")))


def test_listed_files_may_have_ids_that_do_not_depend_on_where_they_are(sounds: Path, tmp_path: Path) -> None:
    paths = [sounds / "a.wav", sounds / "c.wav"]
    made = unhub.embed_sounds(paths, Toy(), tmp_path / "heard", ids=["a", "c"])
    assert made.vectors.ids.tolist() == ["a", "c"]
    moved = sounds.rename(tmp_path / "elsewhere")
    assert unhub.embed_sounds([moved / path.name for path in paths], Toy(), tmp_path / "heard", ids=["a", "c"]).already
    with pytest.raises(ValueError, match="ids has 1 id, 2 are needed"):
        unhub.embed_sounds(paths, Toy(), tmp_path / "other", ids=["a"])
    with pytest.raises(ValueError, match="ids go with a list of files, and sounds is the path"):
        unhub.embed_sounds(moved, Toy(), tmp_path / "other", ids=["a"])


def test_a_folder_of_sounds_is_told_by_the_names_in_it(tmp_path: Path) -> None:
    (tmp_path / "one.FLAC").touch()
    assert kind_of(tmp_path) == kind_of(tmp_path / "one.FLAC") == "sounds"
    (tmp_path / "cover.jpg").touch()
    with pytest.raises(ValueError, match="holds images and sounds; give one of them"):
        kind_of(tmp_path)


def test_a_model_of_pictures_does_not_hear(sounds: Path, tmp_path: Path) -> None:
    clip = tiny_encoders.write_clip(tmp_path / "clip")
    with pytest.raises(ValueError, match=r"model is a CLIPModel, which does not embed sounds; use .*clap"):
        unhub.embed_sounds(sounds, clip, tmp_path / "heard")
    with pytest.raises(ValueError, match="does not embed sounds"):
        unhub.load_encoder(clip, device="cpu").sounds([sounds / "a.wav"])
