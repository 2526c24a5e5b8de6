#!/bin/sh
# The flow on a corpus of ../shared: sh tests/recipes/flow.sh sst2|mrpc|stsb [OUT]
# Finished parts of an earlier run are taken as they are. `ablate` runs where the recipe asks for it.
set -eu
name=$1
out=${2:-runs/$name}
recipe=$(dirname "$0")/$name.toml
bin=${BIN:-.venv/bin}
export HF_HUB_OFFLINE=1 TRANSFERSET_STORE="${TRANSFERSET_STORE:-$out/store}"

run() { printf '\n%s\n' "\$ $*"; "$bin/$@"; }

run augment build "$recipe" --out "$out/set" --workers 2
run distill teacher "$recipe" --set "$out/set" --out "$out/teacher"
run augment label "$recipe" --set "$out/set" --teacher "$out/teacher" --out "$out/labelled"
run augment vectors --set "$out/set" --out "$out/vectors.bin"
if grep -q '^\[ablate\]' "$recipe"; then
  run distill ablate "$recipe" --set "$out/labelled" --vectors "$out/vectors.bin" --out "$out/ablation"
else
  run distill train "$recipe" --set "$out/labelled" --vectors "$out/vectors.bin" --out "$out/student"
  run distill report "$out/student" --teacher "$out/teacher"
fi
