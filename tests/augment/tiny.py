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


def _pieces() -> list[str]:
    texts = [r["text"] for r in REVIEWS] + [r[c] for r in QUESTIONS for c in ("first", "second")]
    return sorted({w.strip(".,!?;:'\"") for t in texts for w in t.split()} - {""})


def cased_tokenizer() -> Any:
    """Return a cased WordPiece tokenizer; some words of the corpus stay of several pieces."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = [w for w in _pieces() if w.isalpha()]
    both = [*words[::3], *(w.capitalize() for w in words[::3]), "good", "Good", "GOOD"]
    letters = [chr(c) for c in range(33, 127)]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, "[unused0]", *letters, *(f"##{c}" for c in letters if c.isalnum()), *both]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    inner = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=False)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )  # fmt: skip
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    tokens: dict[str, Any] = {f"{k}_token": v for k, v in names.items()}
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_input_names=inputs, **tokens)


def trained_tokenizer(kind: str) -> Any:
    """Return a byte-level BPE ("bytes") or Unigram ("unigram") tokenizer learnt from the corpus."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    texts = [r["text"] for r in REVIEWS] * 4
    inner: Any
    if kind == "bytes":
        inner = Tokenizer(models.BPE())
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
        trainer: Any = trainers.BpeTrainer(
            vocab_size=900, special_tokens=special, show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )  # fmt: skip
    else:
        inner = Tokenizer(models.Unigram())
        inner.pre_tokenizer = pre_tokenizers.Metaspace()
        inner.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=700, special_tokens=special, unk_token="<unk>", show_progress=False
        )
    inner.train_from_iterator(texts, trainer)
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )  # fmt: skip
    tokens: dict[str, Any] = {
        "bos_token": "<s>", "cls_token": "<s>", "sep_token": "</s>", "eos_token": "</s>",
        "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>",
    }  # fmt: skip
    inputs = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_input_names=inputs, **tokens)


def save_masked_lm(folder: Path, kind: str = "uncased", positions: int = 64) -> Path:
    """Write a random two-layer masked LM: "uncased", "cased" (BERT), "bytes", "unigram" (RoBERTa)."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, RobertaConfig, RobertaForMaskedLM

    makers = {"uncased": tokenizer, "cased": cased_tokenizer}
    words = makers[kind]() if kind in makers else trained_tokenizer(kind)
    bert = kind in makers
    sizes: dict[str, Any] = {
        "vocab_size": len(words) + 3, "hidden_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 64, "initializer_range": 0.5,
        "max_position_embeddings": positions, "pad_token_id": words.pad_token_id,
        "type_vocab_size": 2 if bert else 1,
    }  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = (
            BertForMaskedLM(BertConfig(**sizes))
            if bert
            else RobertaForMaskedLM(RobertaConfig(**sizes))
        )
        model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def save_vectors(path: Path, dims: int = 8) -> Path:
    """Write random vectors of the corpus's words, lower case, in word2vec's text format."""
    import numpy as np

    words = sorted({w.lower() for w in _pieces()})
    rows = np.random.default_rng(5).standard_normal((len(words), dims))
    lines = [
        f"{w} " + " ".join(f"{x:.5f}" for x in row) for w, row in zip(words, rows, strict=True)
    ]
    path.write_text(f"{len(words)} {dims}\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path
