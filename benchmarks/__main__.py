"""`python -m benchmarks`: so far one benchmark, the Markov models of chapter 1."""

import sys

from benchmarks.markov import main

sys.exit(main())
