"""Speed beside the alternative, measured in the same run: ``make bench``.

Every line prints a figure and its ratio to what it is compared with. Clocks here are noisy: the
best of several turns counts, for both sides alike. Timings decide no test.
"""

from tests.benchmarks import edits

if __name__ == "__main__":
    edits.main()
