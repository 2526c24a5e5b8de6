"""A masked language model's pieces as words: which of them may stand for one, and how.

Letters: V pieces.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The model's pieces as words.

    Attributes:
        words: the pieces without the marks of their place, V strings.
        kind: 1 for pieces that follow white space, 0 for others, (V,); all 0 in word-piece models.
        whole: which pieces are words: no special tokens, no word pieces, no punctuation, (V,).
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
        # Without white space before it, a piece is a word only if one with white space is, too.
        begins = {words[n].casefold() for n in np.flatnonzero(whole & (kind == 1)).tolist()}
        if begins:
            whole &= (kind == 1) | np.array([word.casefold() in begins for word in words])
        folded: dict[str, int] = {}
        same = [folded.setdefault(word.casefold(), len(folded)) for word in words]
        return cls(words, kind, whole, np.array(same, np.int64))

    @property
    def repeats(self) -> bool:
        """Whether usable words of one kind differ in case alone, as in cased models."""
        pairs = np.stack([self.same, self.kind], axis=1)[self.whole]
        return len(np.unique(pairs, axis=0)) < len(pairs)
