"""`python -m benchmarks [markov | pairs | dyck | rotation | agreement] [options]`: one benchmark.

Without a name, the first two run one after the other; the others have options of their own, and
`agreement` takes minutes.
"""

import sys

from benchmarks import agreement, dyck, markov, pairs, rotation

BOTH = {"markov": markov.main, "pairs": pairs.main}
NAMED = {**BOTH, "dyck": dyck.main, "rotation": rotation.main, "agreement": agreement.main}


def main(arguments: list[str]) -> int:
    """Run the benchmark named first; without a name, run the trainer's with the same options."""
    if arguments and arguments[0] in NAMED:
        return NAMED[arguments[0]](arguments[1:])
    return max([run(arguments) for run in BOTH.values()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
