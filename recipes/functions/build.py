"""Build a set of docstrings and functions from public packages, which anyone can build again to the same bits.

    python recipes/functions/build.py --work DIRECTORY

Fetches the packages below by name and version into DIRECTORY/packages, reads their functions with the demo's own rules,
embeds them with the table that ships, and writes the set to DIRECTORY/set. README.md says what is in it. Each download
and each result is checked against its checksum. About a minute on two cores, 27 MB fetched; no fetched code is run.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unhub.demo.functions.code_files import find_code
from unhub.demo.functions.library import Collection, collect
from unhub.demo.functions.reading import read_functions
from unhub.demo.words import TABLE, load_words


class Package(NamedTuple):
    """A package of Python code alone: its version, and the SHA-256 of its wheel."""

    name: str
    version: str
    digest: str


PACKAGES = (
    Package("networkx", "3.4.2", "df5d4365b724cf81b8c6a7312509d0c22386097011ad1abe274afd5e9d3bbc5f"),
    Package("django", "5.1.4", "236e023f021f5ce7dee5779de7b286565fdea5f4ab86bae5338e3f7b69896cf0"),
    Package("xarray", "2024.11.0", "6ee94f63ddcbdd0cf3909d1177f78cdac756640279c0e32ae36819a89cdaba37"),
    Package("dask", "2024.12.1", "1f32acddf1a6994e3af6734756f0a92467c47050bc29f3555bb9b140420e8e19"),
    Package("nltk", "3.9.1", "4fa26829c5b00715afe3061398a8989dc643b92ce7dd93fb4585a70930d168a1"),
    Package("sqlalchemy", "2.0.36", "fddbe92b4760c6f5d48162aef14824add991aeda8ddadb3c31d56eb15ca69f8e"),
    Package("sphinx", "8.1.3", "09719015511837b76bf6e03e42eb7595ac8c2e41eeb9c29c5b755c6b677992a2"),
    Package("docutils", "0.21.2", "dafca5b9e384f0e419294eb4d2ff9fa826435bf15f15b7bd45723e8ad76811b2"),
    Package("celery", "5.4.0", "369631eb580cf8c51a82721ec538684994f8277637edde2dfc0dacd73ed97f64"),
    Package("ansible-core", "2.17.7", "64d4f0a006687a5621aa80dca54fd0c5ae75145b7aac8c1b8d7f07a1399c4705"),
    Package("hypothesis", "6.123.0", "13fb3fe8879245d224be423ca2086150593d9fd8dcfd4585e62dea3c5c8cdddb"),
    Package("pylint", "3.3.3", "26e271a2bc8bce0fc23833805a9076dd9b4d5194e2a02164942cb3cdc37b4183"),
    Package("astroid", "3.3.8", "187ccc0c248bfbba564826c26f070494f7bc964fd286b6d9fff4420e55de828c"),
    Package("ipython", "8.31.0", "46ec58f8d3d076a61d128fe517a51eb730e3aaf0c184ea8c17d16e366660c6a6"),
    Package("prompt-toolkit", "3.0.48", "f49a827f90062e411f1ce1f854f2aedb3c23353244f8108b89283587397ac10e"),
    Package("werkzeug", "3.1.3", "54b78bf3716d19a65be4fceccc0d1d7b89e608834989dfae50ea87564639213e"),
    Package("scrapy", "2.12.0", "c33e2dc7da42e727390bacb32dd9938a54ac210fa71972b5c392754f478669cd"),
    Package("seaborn", "0.13.2", "636f8336facf092165e27924f223d3c62ca560b1f2bb5dff7ab7fad265361987"),
    Package("fonttools", "4.55.3", "f412604ccbeee81b091b420272841e5ec5ef68967a9790e80bffd0e30b8e2977"),
)
SPLITS = {"test": 5000, "val": 2000}  # docstrings; the others are the bank
SEED = 0
# SHA-256 of what is written.
RESULTS = {
    "docstrings.npy": "d74d8b04150eee0c7876fbac21119d4c12726b20c4ce4a62203b36aef95ab0f8",
    "functions.npy": "c1fd007300da2dc9f153abf1d3d3a6862bd018f392384b6db0f6402f0703e932",
    "meta.json": "ca4f7c802ca81e99448f5adcf9aa0c9ae35d26ebb5ce30d367d9df5f0dd32f1b",
}


def main(work: Path, accept: bool) -> None:
    """Fetch, read, embed, write and check."""
    wheels = fetch(work / "packages")
    code = work / "code"
    for package, wheel in zip(PACKAGES, wheels, strict=True):
        unpack(wheel, code / package.name)
    files = find_code([str(code)]).files
    print(f"reading {len(files):,} files", flush=True)
    found = read_functions(files)
    if any(one is None for one in found):
        raise SystemExit("some files cannot be read by this version of Python; 3.11 to 3.13 read them all")
    read = collect(files, found, load_words(TABLE), exact=True)
    write(read, work / "set")
    check(work / "set", accept)


def fetch(folder: Path) -> list[Path]:
    """Return the wheels, those that are missing fetched by name from the registry that pip is set up for."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {digest_of(path): path for path in folder.glob("*.whl")}
    missing = [one for one in PACKAGES if one.digest not in found]
    if missing:
        print(f"fetching {', '.join(f'{one.name} {one.version}' for one in missing)}", flush=True)
        any_machine = ("--implementation", "py", "--abi", "none", "--platform", "any", "--python-version", "3.12")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        wanted = [f"{one.name}=={one.version}" for one in missing]
        subprocess.run([*command, "--only-binary=:all:", *any_machine, "--dest", str(folder), *wanted], check=True)
        found = {digest_of(path): path for path in folder.glob("*.whl")}
    wrong = [one.name for one in PACKAGES if one.digest not in found]
    if wrong:
        raise SystemExit(f"the wheels of {', '.join(wrong)} have another checksum than the recipe")
    return [found[one.digest] for one in PACKAGES]


def unpack(wheel: Path, folder: Path) -> None:
    """Write the Python files of a wheel to a folder, unless they are there."""
    if folder.is_dir():
        return
    part = folder.with_name(f"{folder.name}.part")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(part, [name for name in archive.namelist() if name.endswith(".py")])
    part.rename(folder)


def write(read: Collection, folder: Path) -> None:
    """Write the vectors, the texts and what goes with them."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "docstrings.npy", read.question_rows.astype(np.float16))
    np.save(folder / "functions.npy", read.rows.astype(np.float16))
    write_rows(folder / "docstrings.csv", ("id", "text"), enumerate(read.questions))
    functions = (f"{place} {name}" for place, name in zip(read.ids, read.names, strict=True))
    write_rows(folder / "functions.csv", ("id", "text"), enumerate(functions))
    pairs = [(query, item) for query, items in enumerate(read.answers) for item in items]
    write_rows(folder / "relevance.csv", ("query_id", "item_id"), pairs)
    order = np.random.default_rng(SEED).permutation(len(read.questions))
    ends = np.cumsum([*SPLITS.values()])
    splits = dict(zip([*SPLITS, "bank"], (np.sort(one).tolist() for one in np.split(order, ends)), strict=True))
    meta = {
        "packages": {one.name: one.version for one in PACKAGES},
        "functions": len(read.ids),
        "docstrings": len(read.questions),
        "copies": read.copies,
        "seed": SEED,
        "splits": splits,
        "relevance": pairs,
    }
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    sizes = ", ".join(f"{name} {len(rows):,}" for name, rows in splits.items())
    print(f"{len(read.ids):,} functions, {len(read.questions):,} docstrings ({sizes})")


def write_rows(path: Path, heads: tuple[str, str], rows: Iterable[tuple[object, object]]) -> None:
    """Write rows under heads."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([heads, *rows])


def check(folder: Path, accept: bool) -> None:
    """Compare what was written with the checksums of the recipe; print them if they are to be accepted."""
    found = {name: digest_of(folder / name) for name in RESULTS}
    if accept:
        print("\n".join(f'    "{name}": "{digest}",' for name, digest in found.items()))
    elif found != RESULTS:
        raise SystemExit(f"{', '.join(name for name in RESULTS if found[name] != RESULTS[name])}: other checksums")
    else:
        print("all checksums are those of the recipe")


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--accept", action="store_true", help="print the checksums of a changed recipe")
    given = parser.parse_args()
    main(given.work, given.accept)
