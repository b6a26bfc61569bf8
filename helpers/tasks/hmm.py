"""Hidden Markov sources: the best predictor has to carry a belief about a hidden state.

The hidden state moves by ``transition`` (S, S); each state then emits a token by ``emission``
(S, V).  What an observer knows after a prefix is the *belief*, the posterior over hidden states:
a point in a simplex.  The next token depends on the belief alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from helpers.tasks.markov import Chain, check_stochastic, sample_paths, stationary_distribution


@dataclass(frozen=True, eq=False)
class HiddenMarkov:
    """A hidden Markov source with ``transition`` (S, S) and ``emission`` (S, V)."""

    transition: np.ndarray
    emission: np.ndarray

    def __post_init__(self) -> None:
        T = check_stochastic(self.transition, "the transition matrix")
        E = check_stochastic(self.emission, "the emission matrix", square=False)
        if len(E) != len(T):
            raise ValueError(
                f"the emission matrix needs one row a hidden state: {len(T)} rows; got {len(E)}."
            )
        object.__setattr__(self, "transition", T)
        object.__setattr__(self, "emission", E)

    @property
    def d_vocab(self) -> int:
        """Number of tokens V."""
        return self.emission.shape[1]

    @cached_property
    def stationary(self) -> Float[np.ndarray, " S"]:
        """Stationary distribution of the hidden chain; sequences start in it."""
        return stationary_distribution(self.transition)

    def sample(
        self, rng: np.random.Generator, n_sequences: int, length: int
    ) -> Int[np.ndarray, "n length"]:
        """Token sequences; the hidden path is drawn first, then a token from each state."""
        states = sample_paths(rng, self.stationary, self.transition, n_sequences, length)
        cumulative = np.cumsum(self.emission, axis=1)
        cumulative[:, -1] = 1.0
        uniform = rng.random(states.shape)
        return (uniform[..., None] > cumulative[states]).sum(axis=-1)

    def beliefs(self, tokens: Int[np.ndarray, "n length"]) -> Float[np.ndarray, "n length S"]:
        r"""Posterior over the hidden state after each token (Bayes' filter).

        :math:`b_t \propto (b_{t-1} T) \odot E_{:, x_t}`, from the stationary distribution.

        Raises:
            ValueError: tokens that are not whole numbers (n, length), a token outside the
                vocabulary, or a sequence of probability zero.
        """
        tokens = np.asarray(tokens)
        if tokens.ndim != 2 or not tokens.size:
            raise ValueError(
                "tokens must be (sequences, length), each at least 1; got shape "
                f"{tokens.shape}. For one sequence pass tokens[None]."
            )
        if not np.issubdtype(tokens.dtype, np.integer):
            raise ValueError(
                f"tokens must be whole numbers; got {tokens.dtype} of shape {tokens.shape}. "
                "Convert them with .astype(int)."
            )
        if tokens.min() < 0 or tokens.max() >= self.d_vocab:
            raise ValueError(
                f"tokens must lie in 0…{self.d_vocab - 1}; got {tokens.min()}…{tokens.max()}."
            )
        beliefs = np.empty((*tokens.shape, len(self.transition)))
        prior = np.broadcast_to(self.stationary, (len(tokens), len(self.transition)))
        for t in range(tokens.shape[1]):
            joint = prior * self.emission[:, tokens[:, t]].T
            likelihood = joint.sum(axis=1, keepdims=True)
            if not likelihood.all():
                raise ValueError(
                    f"sequence {int(likelihood.argmin())} cannot come from this source: the token "
                    f"at position {t} has probability zero."
                )
            beliefs[:, t] = joint / likelihood
            prior = beliefs[:, t] @ self.transition
        return beliefs

    def next_token(
        self, beliefs: Float[np.ndarray, "n length S"]
    ) -> Float[np.ndarray, "n length V"]:
        r"""Probabilities of the next token, :math:`b_t\, T E`."""
        return beliefs @ self.transition @ self.emission

    def spec(self) -> dict:
        """A JSON-able description; :func:`from_spec` turns it back."""
        return {
            "kind": "hmm",
            "transition": self.transition.tolist(),
            "emission": self.emission.tolist(),
        }


def mess3(x: float, alpha: float) -> HiddenMarkov:
    r"""Three hidden states; each stays with :math:`1-2x` and moves to either other with x.

    A state emits its own symbol with ``alpha`` and either other with :math:`(1-\alpha)/2`.  The
    hidden chain has the eigenvalue :math:`1-3x` twice; the tokens' own autocorrelation is
    :math:`(1-3x)\,((3\alpha-1)/2)^2`.
    """
    if not 0 < x < 0.5:
        raise ValueError(f"x must lie strictly between 0 and 0.5; got {x}.")
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must lie in [0, 1]; got {alpha}.")
    off = 1 - np.eye(3)
    return HiddenMarkov(
        (1 - 2 * x) * np.eye(3) + x * off, alpha * np.eye(3) + (1 - alpha) / 2 * off
    )


def from_spec(spec: dict) -> Chain | HiddenMarkov:
    """Rebuild a source from its ``spec()``.

    Raises:
        ValueError: the kind is not known.
    """
    if spec.get("kind") == "chain":
        return Chain(np.array(spec["transition"]))
    if spec.get("kind") == "hmm":
        return HiddenMarkov(np.array(spec["transition"]), np.array(spec["emission"]))
    raise ValueError(f"unknown source kind {spec.get('kind')!r}; known: 'chain', 'hmm'.")
