"""Looking at a set: originals and their copies, with the edits in colour."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

import pyarrow as pa
import pyarrow.compute as pc
from rich.text import Text

from augment.settings import PLACEHOLDER
from augment.transferset import TransferSet

_PIECES = re.compile(r"\[MASK\]|\w+|[^\w\s]|\s+")


def differences(original: str, copy: str, colour: bool = True) -> Text:
    """Return a copy with what is new in green, masks in yellow, and what went struck through.

    Without colour the copy stands as it is: struck-through words would read as part of it.
    """
    if not colour:
        return Text(copy)
    old, new = _PIECES.findall(original), _PIECES.findall(copy)
    text = Text()
    for what, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            text.append("".join(new[c:d]))
            continue
        text.append("".join(old[a:b]), style="dim strike red")
        for piece in new[c:d]:
            text.append(piece, style="bold yellow" if piece == PLACEHOLDER else "bold green")
    return text


def lines(
    source: TransferSet, rows: int = 3, copies: int = 5, first: int = 0, colour: bool = True
) -> Iterator[Text]:
    """Yield what ``augment show`` prints: some originals, each with some of its copies.

    Args:
        source: a finished set.
        rows: originals to show.
        copies: copies of each, at most.
        first: number of the first original.
        colour: whether the terminal shows colours.
    """
    taken = 0
    texts: dict[str, str] = {}
    shown = 0
    source_shown: object = None
    for batch in source.batches("train", rows=4096):
        table = pa.Table.from_batches([batch])
        if taken + pc.sum(pc.equal(table["copy"], 0)).as_py() <= first:
            taken += pc.sum(pc.equal(table["copy"], 0)).as_py()
            continue
        for row in table.to_pylist():
            if row["copy"] == 0:
                taken += 1
                if taken > first + rows:
                    return
                texts = {name: row[name] for name in source.text}
                source_shown = row["source"]
                shown = 0
                if taken > first:
                    yield _heading(source, row)
            elif texts and row["source"] == source_shown and taken > first and shown < copies:
                shown += 1
                yield _copy(source, row, texts, colour)


def _heading(source: TransferSet, row: dict[str, object]) -> Text:
    text = Text(f"\n{row['source']}  ", style="bold cyan")
    text.append("  ‖  ".join(str(row[name]) for name in source.text), style="bold")
    label = row.get("label")
    if isinstance(label, int) and source.task.classes:
        label = source.task.classes[label]
    if label is not None:
        text.append(f"   label {label}", style="magenta")
    return text


def _copy(source: TransferSet, row: dict[str, object], texts: dict[str, str], colour: bool) -> Text:
    text = Text(f"  {row['copy']:>3} ", style="cyan")
    for number, name in enumerate(source.text):
        text.append("  ‖  " if number else "")
        text.append_text(differences(texts[name], str(row[name]), colour))
    text.append(f"   {row['ops'] or 'unchanged'}", style="dim")
    if row.get("logits") is not None:
        values = ", ".join(f"{v:+.2f}" for v in row["logits"])  # type: ignore[attr-defined]
        text.append(f"   [{values}]", style="dim magenta")
    return text
