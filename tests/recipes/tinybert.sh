#!/bin/sh
# Four-layer students of SST-2, MRPC and STS-B beside their six-layer teachers: hard labels, logits,
# two stages, two stages on the transfer set; three seeds; and the parts of the recipe, one seed.
# Usage: sh tests/recipes/tinybert.sh SST2-LABELLED MRPC-LABELLED STSB-LABELLED
# The sets: tests/recipes/downstream.py (substitute-labelled) and flow.sh mrpc, flow.sh stsb (labelled).
# Under two hours on two cores. What is finished in runs/tinybert is taken as it is.
set -eu
here=$(dirname "$0")
out=$here/../../runs/tinybert
distill=${BIN:-.venv/bin}/distill

ablate() { "$distill" ablate "$here/$1.toml" --set "$2" --out "$out/$1"; }

mkdir -p "$out"
ablate sst2-tinybert-half "$1"
ablate sst2-tinybert-wide "$1"
ablate sst2-tinybert-layers "$1"
"$distill" train "$here/general-half.toml" --out "$out/general-half"
ablate sst2-tinybert-parts "$1"
for width in half layers; do
  ablate "mrpc-tinybert-$width" "$2"
  ablate "stsb-tinybert-$width" "$3"
done
