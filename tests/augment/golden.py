"""The sets whose digests are pinned, and how they are made; imported by scripts as well."""

from pathlib import Path
from typing import Any

import augment as A
from tests.augment.corpus_rows import REVIEWS

GOLDEN = {
    "reviews": "ab813fbf9df882c575e2847e410d80338f6572d4ffdd203d32acfcf4d3057793",
    "questions": "5907c79263cf1d274c59c20c71e9f7deedac8429f40f64d6a5cf466f73b56238",
    "labelled": "b173913cd505e63dfacdf1355697c4ee8c00b3da8939747c82f1cf64e8e674ec",
}
HELD_OUT = [{"id": 0, "text": "works as DESCRIBED.", "label": 1}]


def build(out: str | Path, tagger: str, source: Any = REVIEWS, **options: Any) -> A.TransferSet:
    """Build the reviews as Tang et al. do, with fixed tags; ``options`` change what they name."""
    chain = (A.Mask(0.1) | A.ReplacePOS(0.1, tagger=tagger)) >> A.SampleNGram(0.25)
    settings = {"label": "label", "copies": 20, "seed": 7, "validation": HELD_OUT}
    return A.build(source, chain, out=out, **settings | options)
