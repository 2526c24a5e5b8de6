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
say "5. The student twice, at equal steps: from the labels, and from the teacher"
run distill train "$recipes/demo-hard.toml" --set "$out/labelled" --vectors "$out/vectors.bin" --out "$out/hard"
run distill train "$recipes/demo.toml" --set "$out/labelled" --vectors "$out/vectors.bin" --out "$out/distilled"
say "6. Side by side"
run distill report "$out/hard" "$out/distilled" --teacher "$out/teacher"
