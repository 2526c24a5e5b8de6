"""Students: each a ``PreTrainedModel`` with its config and its fast tokenizer."""
