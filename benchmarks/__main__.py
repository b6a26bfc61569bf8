"""`python -m benchmarks [markov | pairs | dyck | agreement] [options]`: one benchmark.

Without a name, the first two run one after the other; `dyck` and `agreement` have options of their
own, and `agreement` takes minutes.
"""

import sys

from benchmarks import agreement, dyck, markov, pairs

BOTH = {"markov": markov.main, "pairs": pairs.main}
NAMED = {**BOTH, "dyck": dyck.main, "agreement": agreement.main}


def main(arguments: list[str]) -> int:
    """Run the benchmark named first; without a name, run the trainer's with the same options."""
    if arguments and arguments[0] in NAMED:
        return NAMED[arguments[0]](arguments[1:])
    return max([run(arguments) for run in BOTH.values()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
