"""A real BERT classifier, random and tiny, as a folder on disk."""

from pathlib import Path
from typing import Any

from tests.augment.corpus_rows import QUESTIONS, REVIEWS


def tokenizer(extra: tuple[str, ...] = (), **options: Any) -> Any:
    """Return a fast WordPiece tokenizer that knows letters and the corpus's commonest words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    texts = [r["text"] for r in REVIEWS] + [r[c] for r in QUESTIONS for c in ("first", "second")]
    words = sorted({w for t in texts for w in t.lower().split() if w.isalpha()})[::2]
    letters = [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    pieces = [*special, *extra, *letters, *(f"##{c}" for c in letters if c.isalnum()), *words]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    inner = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    tokens = {f"{k}_token": v for k, v in names.items()} | options
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_input_names=inputs, **tokens)


def save_classifier(
    folder: Path, classes: tuple[str, ...] = ("0", "1"), seed: int = 0, **changes: Any
) -> Path:
    """Write a random two-layer classifier; ``changes`` go to its configuration."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    words = tokenizer()
    config = BertConfig(
        vocab_size=len(words) + 8,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.5,  # wide, so that texts get logits well apart
        id2label=dict(enumerate(classes)),
        label2id={c: i for i, c in enumerate(classes)},
        num_labels=len(classes),
        **changes,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        BertForSequenceClassification(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
