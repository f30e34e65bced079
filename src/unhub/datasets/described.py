"""What is known of a data set before its files are read: what to download, sizes, terms, protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from unhub.arrays import Ids
from unhub.datasets.dataset import Part, Protocol
from unhub.datasets.scanned import Scanned

VIDEO_MEASURES = ("R@1", "R@5", "R@10", "MdR", "MnR")
IMAGE_MEASURES = ("R@1", "R@5", "R@10")
TEXT_VIDEO = Protocol("text-video", ("t2v", "v2t"), VIDEO_MEASURES)
TEXT_PARAGRAPH_VIDEO = Protocol("text-video", ("t2v", "v2t"), VIDEO_MEASURES, captions="joined")
TEXT_IMAGE = Protocol("text-image", ("t2i", "i2t"), IMAGE_MEASURES)
OWN = "you"  # source of what is the user's own, which is not fetched
TEXT_AUDIO = Protocol("text-audio", ("t2a", "a2t"), VIDEO_MEASURES)


@dataclass(frozen=True)
class Download:
    """Something to download.

    names: the file, or other files that do as well; patterns are allowed; none for media files. holds: what it
    holds, and how media files are named. source: where it comes from, in words. needed: nothing can be measured
    without it. splits: those that use it; all of them if there are none here. md5: of the official version. spare:
    used only where the other files do not say enough, so that nobody misses it. exact: media files lie where the
    annotations say, and not anywhere below the folder.
    """

    names: tuple[str, ...]
    holds: str
    source: str
    needed: bool = True
    splits: tuple[str, ...] = ()
    md5: str = ""
    spare: bool = False
    exact: bool = False

    @property
    def title(self) -> str:
        """The names as one says them."""
        return " or ".join(self.names) or "media"

    @property
    def fetch(self) -> str:
        """What to do where it is missing."""
        if self.source == OWN:
            return f"write {self.title} ({self.holds})"
        return f"fetch {self.title} ({self.holds}) from {self.source}"

    def for_split(self, split: str) -> bool:
        """Say whether a split uses it."""
        return not self.splits or split in self.splits


@dataclass(frozen=True, eq=False)
class Contents:
    """What the files of a data set hold: its parts, and what its reader noticed.

    banks: beside the parts themselves. protocol: where it depends on the files. groups: for group bias.
    """

    parts: Mapping[str, Part]
    notes: tuple[str, ...] = ()
    banks: Mapping[str, Part] = field(default_factory=dict)
    protocol: Protocol | None = None
    groups: Mapping[str, Ids] = field(default_factory=dict)


@dataclass(frozen=True)
class Known:
    """A data set that can be read.

    splits: their names, the usual one first. sizes: of each split, the items and queries of each part as the papers
    have them. files: what to download; it may lie anywhere below the folder unless it says otherwise. load: reads
    the files of a split. unverified: the splits whose reader was not tested on the official files that the test needs.
    """

    name: str
    title: str
    protocol: Protocol
    splits: tuple[str, ...]
    sizes: Mapping[str, Mapping[str, tuple[int, int]]]
    files: tuple[Download, ...]
    terms: str
    load: Callable[[Scanned, str], Contents]
    unverified: tuple[str, ...] = ()

    @property
    def task(self) -> str:
        """What is searched with what."""
        return self.protocol.task
