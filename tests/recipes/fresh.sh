#!/bin/sh
# A saved student works in a pipeline where only torch and transformers are installed.
#
#   sh tests/recipes/fresh.sh STUDENT [PYTHON]
#
# STUDENT is the run folder of a tinybert student; PYTHON (python3 by default) makes the
# environment, which is removed afterwards.
set -eu
[ $# -ge 1 ] && [ -f "$1/config.json" ] || { echo "usage: $0 STUDENT [PYTHON]" >&2; exit 2; }
student=$(cd "$1" && pwd)
constraints=$(cd "$(dirname "$0")/../.." && pwd)/constraints.txt
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
"${2:-python3}" -m venv "$room/venv"
torch=$(grep '^torch==' "$constraints")
"$room/venv/bin/pip" install --quiet --constraint "$constraints" "$torch" transformers
cd "$room" # no package of the checkout is in reach from here
env -u PYTHONPATH HF_HUB_OFFLINE=1 venv/bin/python - "$student" <<'PYTHON'
import importlib.util, json, sys, transformers
assert not any(importlib.util.find_spec(name) for name in ("augment", "distill"))
with open(sys.argv[1] + "/config.json", encoding="utf-8") as file:
    names = set(json.load(file)["id2label"].values())
classify = transformers.pipeline("text-classification", model=sys.argv[1], device="cpu")
for text in ("a warm and clever film", "cold, dull and far too long"):
    (found,) = classify(text)
    assert found["label"] in names, f"{found['label']} is none of {names}"
    print(f"{found['label']}\t{found['score']:.3f}\t{text}")
PYTHON
