#!/bin/sh
# Four-layer students of SST-2, MRPC and STS-B beside their six-layer teachers: hard labels, logits,
# two stages, two stages on the transfer set; three seeds; and the parts of the recipe, one seed.
# Usage: sh tests/recipes/tinybert.sh SST2-LABELLED MRPC-LABELLED STSB-LABELLED [OUT]
# The sets: tests/recipes/downstream.py (substitute-labelled) and flow.sh mrpc, flow.sh stsb (labelled).
# About 80 minutes on two cores. What is finished in OUT is taken as it is.
set -eu
here=$(dirname "$0")
sst2=$1 mrpc=$2 stsb=$3 out=${4:-runs/tinybert}
distill=${BIN:-.venv/bin}/distill
mkdir -p "$out"
for width in half wide layers; do
  "$distill" ablate "$here/sst2-tinybert-$width.toml" --set "$sst2" --out "$out/sst2-$width"
done
"$distill" ablate "$here/sst2-tinybert-half.toml" --set "$sst2" --out "$out/sst2-parts" \
  --seeds 1 --rows 10000 --variants all
for task in mrpc stsb; do
  eval "set=\$$task"
  for width in half wide; do
    "$distill" ablate "$here/$task-tinybert-$width.toml" --set "$set" --out "$out/$task-$width"
  done
done
