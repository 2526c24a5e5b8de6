"""A split of a transfer set as tokens: flat arrays, cut into padded batches by array indexing.

Letters: N rows, B rows of a batch, T its longest row, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from augment.settings import PLACEHOLDER
from augment.transferset import TransferSet

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Examples(Dataset[dict[str, Tensor]]):
    """Rows as tokens with what training may ask of them.

    Row i is ``ids[starts[i]:starts[i + 1]]``. ``types`` tells the texts of a pair apart. ``labels``
    (N,), ``logits`` (N, C) and ``copies`` (N,) are None where the set has no such column, or where
    any of its rows is empty. ``sources`` numbers the source rows 0, 1, 2... in order.
    """

    ids: NDArray[np.int32]
    starts: Ints
    types: NDArray[np.int8] | None
    labels: NDArray[Any] | None
    logits: NDArray[np.float32] | None
    copies: Ints
    sources: Ints
    pad: int = 0
    rows: Ints | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1 if self.rows is None else len(self.rows)

    @property
    def lengths(self) -> Ints:
        """Tokens of each row, (N,)."""
        lengths = np.diff(self.starts)
        return lengths if self.rows is None else lengths[self.rows]

    def where(self, mask: NDArray[np.bool_]) -> "Examples":
        """Return the rows where ``mask`` (N,) holds, sharing the token arrays."""
        places = np.flatnonzero(mask)
        return replace(self, rows=places if self.rows is None else self.rows[places])

    def column(self, name: str) -> NDArray[Any]:
        """Return ``labels``, ``logits``, ``copies`` or ``sources`` of the chosen rows."""
        values: NDArray[Any] = getattr(self, name)
        return values if self.rows is None else values[self.rows]

    def __getitems__(self, rows: Sequence[int]) -> dict[str, Tensor]:
        """Return a padded batch: the loader's whole fetch in one indexing step."""
        return self.batch(np.asarray(rows, np.int64))

    def batch(self, rows: Ints) -> dict[str, Tensor]:
        """Return rows as ``input_ids``, ``attention_mask`` (B, T) and their targets."""
        places = rows if self.rows is None else self.rows[rows]
        begin = self.starts[places]
        lengths = self.starts[places + 1] - begin
        steps = max(int(lengths.max(initial=0)), 1)
        keep = np.arange(steps) < lengths[:, None]
        # Padding reads some other row's token; it is overwritten below.
        where = np.minimum(begin[:, None] + np.arange(steps), max(len(self.ids) - 1, 0))
        source = self.ids if len(self.ids) else np.full(1, self.pad, np.int32)
        batch = {
            "input_ids": torch.from_numpy(np.where(keep, source[where], self.pad).astype(np.int64)),
            "attention_mask": torch.from_numpy(keep.astype(np.int64)),
        }
        if self.types is not None and len(self.types):
            types = np.where(keep, self.types[where], 0).astype(np.int64)
            batch["token_type_ids"] = torch.from_numpy(types)
        if self.labels is not None:
            batch["labels"] = torch.from_numpy(self.labels[places])
        if self.logits is not None:
            batch["logits"] = torch.from_numpy(self.logits[places])
        return batch


def read_examples(
    transfer_set: TransferSet,
    split: str,
    tokenizer: PreTrainedTokenizerBase,
    *,
    max_tokens: int,
    originals: bool = False,
) -> Examples:
    """Tokenise a split.

    Args:
        transfer_set: a finished set.
        split: ``train``, ``validation`` or ``test``.
        tokenizer: a fast tokenizer; its own special tokens and type ids are used.
        max_tokens: a row's longest, special tokens included; pairs lose the longer text's end.
        originals: leave copies out before anything is tokenised.
    """
    table = transfer_set.read(split)
    if originals and "copy" in table.column_names:
        table = table.filter(pc.equal(table["copy"], 0))
    table = _judged(table, split)
    columns = [table[name].to_pylist() for name in transfer_set.text]
    own = tokenizer.mask_token
    if own and own != PLACEHOLDER:  # as in labelling; a tokenizer without one reads an unknown word
        columns = [[text.replace(PLACEHOLDER, own) for text in column] for column in columns]
    ids, types, starts = _tokens(columns, tokenizer, max_tokens)
    return Examples(
        ids=ids,
        starts=starts,
        types=types if "token_type_ids" in tokenizer.model_input_names else None,
        labels=_labels(table, transfer_set.task.kind == "regression"),
        logits=_logits(table),
        copies=_numbers(table, "copy"),
        sources=_numbers(table, "source"),
        pad=int(tokenizer.pad_token_id or 0),
    )


def text_examples(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, *, max_tokens: int
) -> Examples:
    """Tokenise raw texts: each an original of its own, without label or logits.

    Args:
        texts: N of them.
        tokenizer: as in :func:`read_examples`.
        max_tokens: where a text is cut, special tokens included.
    """
    ids, types, starts = _tokens([list(texts)], tokenizer, max_tokens)
    return Examples(
        ids=ids,
        starts=starts,
        types=types if "token_type_ids" in tokenizer.model_input_names else None,
        labels=None,
        logits=None,
        copies=np.zeros(len(texts), np.int64),
        sources=np.arange(len(texts)),
        pad=int(tokenizer.pad_token_id or 0),
    )


def read_targets(transfer_set: TransferSet, split: str) -> Examples:
    """Read a split's labels and logits without its texts: rows of no tokens."""
    have = set(transfer_set.read(split).column_names) - set(transfer_set.text)
    table = _judged(transfer_set.read(split, columns=sorted(have)), split)
    return Examples(
        ids=np.empty(0, np.int32),
        starts=np.zeros(table.num_rows + 1, np.int64),
        types=None,
        labels=_labels(table, transfer_set.task.kind == "regression"),
        logits=_logits(table),
        copies=_numbers(table, "copy"),
        sources=_numbers(table, "source"),
    )


def _judged(table: pa.Table, split: str) -> pa.Table:
    """Leave out held-out rows without a label where others have one: they judge nobody."""
    if split == "train" or "label" not in table.column_names:
        return table
    known = table["label"].is_valid()
    return table.filter(known) if pc.any(known).as_py() else table


def _tokens(
    columns: list[list[str]], tokenizer: PreTrainedTokenizerBase, max_tokens: int
) -> tuple[NDArray[np.int32], NDArray[np.int8], Ints]:
    # A copy, since truncation is a setting of the backend and the caller's stays as it was.
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.enable_truncation(max_tokens, strategy="longest_first")
    backend.no_padding()
    ids, types, lengths = [], [], [np.zeros(1, np.int64)]
    for start in range(0, len(columns[0]), 4096):
        parts = [column[start : start + 4096] for column in columns]
        rows = list(zip(*parts, strict=True)) if len(parts) == 2 else parts[0]
        encoded = backend.encode_batch_fast(rows)
        lengths.append(np.fromiter((len(e) for e in encoded), np.int64, len(encoded)))
        for e in encoded:
            ids.append(np.array(e.ids, np.int32))
            types.append(np.array(e.type_ids, np.int8))
    none = np.empty(0, np.int32)
    return (
        np.concatenate([none, *ids]).astype(np.int32),
        np.concatenate([none, *types]).astype(np.int8),
        np.cumsum(np.concatenate(lengths)),
    )


def _labels(table: pa.Table, regression: bool) -> NDArray[Any] | None:
    if "label" not in table.column_names or table["label"].null_count:
        return None
    values = np.asarray(table["label"].to_numpy())
    return values.astype(np.float32 if regression else np.int64)


def _logits(table: pa.Table) -> NDArray[np.float32] | None:
    if "logits" not in table.column_names or table["logits"].null_count:
        return None
    lists = table["logits"].combine_chunks()
    values = np.asarray(lists.flatten().to_numpy(zero_copy_only=False), np.float32)
    return values.reshape(len(lists), -1)


def _numbers(table: pa.Table, name: str) -> Ints:
    if name not in table.column_names:
        return np.zeros(table.num_rows, np.int64)
    if name == "source":  # a number or a string id: numbered in order of appearance
        column = table[name].combine_chunks().dictionary_encode()
        return np.asarray(column.indices.to_numpy(zero_copy_only=False), np.int64)
    return np.asarray(table[name].to_numpy(), np.int64)
