"""The word-level tokenizer of a student: English clitics apart, any script, nothing to learn.

``does n't`` and ``doesn't`` read alike, so a text split by a treebank and the same text as people
write it meet the same word vectors. The set's placeholder ``[MASK]`` reads as the unknown word.
"""

from collections.abc import Iterable, Iterator

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

PAD, UNKNOWN = "[PAD]", "[UNK]"
_MASK = "[mask]"
_ALONE = r"\p{Han}\p{Hiragana}\p{Katakana}"  # scripts without spaces: one word a character
_WORD = rf"(?:(?![{_ALONE}])[\p{{L}}\p{{M}}\p{{N}}_])"
_PIECES = "|".join(
    [
        r"\[mask\]",
        rf"{_WORD}+?(?=n't(?!{_WORD}))",  # does|n't, ca|n't
        rf"n't(?!{_WORD})",
        rf"'(?:s|m|d|re|ve|ll)(?!{_WORD})",  # it|'s
        r"\p{N}+(?:[.,]\p{N}+)+",  # 1,000.5
        rf"{_WORD}+",
        rf"[{_ALONE}]\p{{M}}*",
        r"\.{2,}|-{2,}|``|''",  # treebank's dots, dashes and quotes
        r"[^\s]",
    ]
)


def word_tokenizer(
    texts: Iterable[list[str]], *, min_count: int = 1, max_words: int = 128, pair: bool = False
) -> PreTrainedTokenizerFast:
    """Return a tokenizer that knows every word seen at least ``min_count`` times.

    Ids go by count, then by the word itself, so the same texts in any order give the same ids.
    A pair is encoded as ``A:0 B:1``: the texts are told apart by type ids, with no separator.

    Args:
        texts: lists of texts; a whole Arrow column in slices.
        min_count: rarer words become ``[UNK]``.
        max_words: length of one text at which callers that truncate do so.
        pair: whether rows are two texts.
    """
    trainer = trainers.WordLevelTrainer(
        vocab_size=2**31, min_frequency=min_count, show_progress=False, special_tokens=[]
    )
    counted = _backend({UNKNOWN: 0})
    counted.train_from_iterator(texts, trainer)
    known = counted.get_vocab()
    words = sorted((w for w in known if w not in (_MASK, PAD, UNKNOWN)), key=known.__getitem__)
    backend = _backend({word: i for i, word in enumerate([PAD, UNKNOWN, *words])})
    backend.post_processor = processors.TemplateProcessing(
        single="$A:0", pair="$A:0 $B:1", special_tokens=[]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        unk_token=UNKNOWN,
        padding_side="right",
        truncation_side="right",
        model_max_length=max_words * (2 if pair else 1),
        model_input_names=["input_ids", "attention_mask", *(["token_type_ids"] if pair else [])],
        clean_up_tokenization_spaces=False,
    )


def words_of(tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """Return the vocabulary in the order of its ids."""
    known = tokenizer.get_vocab()
    return sorted(known, key=known.__getitem__)


def slices(texts: list[str], size: int = 4096) -> Iterator[list[str]]:
    """Cut a long list so that the tokenizer's threads get work without a second copy of it."""
    for start in range(0, len(texts), size):
        yield texts[start : start + size]


def _backend(vocabulary: dict[str, int]) -> Tokenizer:
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    backend.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace("\u2019", "'"), normalizers.Lowercase()]
    )
    # The pattern says what a word is, so what is "removed" is what lies between two matches.
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(_PIECES), "removed", invert=True)
    return backend
