"""Speed beside the alternative, measured in the same run: ``make bench``.

``make bench WHAT="edits students"`` runs some. Every line prints a figure and its ratio to what it
is compared with. Clocks here are noisy: the best of several turns counts, for both sides alike.
Timings decide no test.
"""

import sys
from importlib import import_module

ALL = ("edits", "building", "labelling", "students", "tinybert", "substitution", "memory")

if __name__ == "__main__":
    for name in sys.argv[1:] or ALL:
        import_module(f"tests.benchmarks.{name}").main()
