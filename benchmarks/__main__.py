"""`python -m benchmarks [markov | pairs] [options]`: one benchmark, or both one after the other."""

import sys

from benchmarks import markov, pairs

BOTH = {"markov": markov.main, "pairs": pairs.main}


def main(arguments: list[str]) -> int:
    """Run the benchmark named first; without a name, run both with the same options."""
    if arguments and arguments[0] in BOTH:
        return BOTH[arguments[0]](arguments[1:])
    return max([run(arguments) for run in BOTH.values()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
