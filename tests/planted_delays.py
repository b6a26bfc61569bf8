"""Planted laws of the delay, and the plain likelihood: the ground truth of the tests of delays."""

import numpy as np
import scipy.optimize
import scipy.stats
from hypothesis import settings
from hypothesis import strategies as st

quick = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
DECAYS = np.array([0.3, 0.5, 1, 1.5, 2, 3])
PRIMES = np.array([31, 43, 53, 61, 79, 89, 101])
MODES = np.array([5, 8, 13, 26])


def rng(seed=0):
    return np.random.default_rng(seed)


def planted(law, x, n_seeds, noise=0.2, level=0.0, slope=0.0, end=np.inf, seed=0):
    """Delays (S, seeds) around ``law``; seeds differ in level and slope; runs stop at ``end``."""
    r = rng(seed)
    log_x = np.log(x) - np.log(x).mean()
    log_delays = np.log(law(np.asarray(x, float)))[:, None]
    log_delays = log_delays + noise * r.standard_normal((len(x), n_seeds))
    log_delays += level * r.standard_normal(n_seeds)
    log_delays += slope * log_x[:, None] * r.standard_normal(n_seeds)
    delays = np.exp(log_delays)
    return np.minimum(delays, end), delays > end


def inverse(x):
    return 500 / x


def threshold(critical, omega=1000):
    return lambda x: -omega * np.log(1 - critical / x)


def regression(seed, n=40, k=2, share=0.3):
    """A design with a constant, values, and a mask of which some are stopped early."""
    r = rng(seed)
    X = np.column_stack([np.ones(n), r.standard_normal((n, k - 1))])
    y = X @ r.standard_normal(k) + np.exp(r.normal()) * r.standard_normal(n)
    end = np.quantile(y, 1 - share)
    return X, np.minimum(y, end), y > end


def minus_log_likelihood(parameters, X, y, censored):
    """The plain formula, in β and log σ."""
    mean, sigma = X @ parameters[:-1], np.exp(parameters[-1])
    seen = scipy.stats.norm.logpdf(y[~censored], mean[~censored], sigma).sum()
    return -seen - scipy.stats.norm.logsf(y[censored], mean[censored], sigma).sum()
