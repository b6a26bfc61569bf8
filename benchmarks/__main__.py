"""`python -m benchmarks [markov | pairs | agreement] [options]`: one benchmark.

Without a name, the two of the trainer run one after the other; `agreement` takes minutes and has
options of its own.
"""

import sys

from benchmarks import agreement, markov, pairs

BOTH = {"markov": markov.main, "pairs": pairs.main}
NAMED = {**BOTH, "agreement": agreement.main}


def main(arguments: list[str]) -> int:
    """Run the benchmark named first; without a name, run the trainer's with the same options."""
    if arguments and arguments[0] in NAMED:
        return NAMED[arguments[0]](arguments[1:])
    return max([run(arguments) for run in BOTH.values()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
