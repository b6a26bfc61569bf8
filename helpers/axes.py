r"""Axes of a layer: one reading and one writing vector, and the simple ways to choose them.

Every handle on number that this book compares is one-dimensional.  It reads a coordinate
z = w·(h − mean) and writes along u; an intervention takes c times the coordinate away:

.. math:: h \mapsto h - c\,u\,(w^\top (h - \mathrm{mean})),

c = 1 removes the coordinate and c = 2 reflects it.  Most handles read and write along one unit
vector, w = u.  LEACE (``helpers/leace.py``) does not: it is an oblique projection.

The functions below take activations ``H`` (N, D) and give unit vectors (D,) in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped

from helpers.cores import check_activations

STRENGTH = {"remove": 1.0, "flip": 2.0}


@dataclass(frozen=True)
class Axis:
    """A handle: it reads ``read`` · (h − ``mean``) and writes along ``write``; all (D,).

    Raises:
        ValueError: shapes that differ, NaN, or read · write other than 1, with which a second
            removal would change the activation again.
    """

    read: np.ndarray
    write: np.ndarray
    mean: np.ndarray

    def __post_init__(self) -> None:
        shapes = [np.shape(part) for part in (self.read, self.write, self.mean)]
        if len(set(shapes)) != 1 or len(shapes[0]) != 1:
            raise ValueError(f"read, write and mean must all be (D,); got {shapes}.")
        product = float(self.read @ self.write)
        if not abs(product - 1) < 1e-6:
            raise ValueError(
                f"read · write must be 1, it is {product:.6g}: the axis would not be a projection. "
                "Scale the reading vector."
            )

    @classmethod
    def along(cls, direction: Float[np.ndarray, " D"], mean: Float[np.ndarray, " D"]) -> Axis:
        """The axis that reads and writes along one direction, here scaled to length 1."""
        u = unit(direction)
        return cls(u, u, np.asarray(mean, dtype=np.float64))

    def coordinates(self, H: Float[np.ndarray, "*batch D"]) -> Float[np.ndarray, "*batch"]:
        """z = w·(h − mean), in units of the activations where w has length 1."""
        return (H - self.mean) @ self.read

    def apply(self, H: Float[np.ndarray, "*batch D"], mode: str) -> Float[np.ndarray, "*batch D"]:
        """``remove``: h − u z;  ``flip``: h − 2 u z;  ``keep``: mean + u z.

        Raises:
            ValueError: an unknown mode.
        """
        written = self.coordinates(H)[..., None] * self.write
        if mode == "keep":
            return self.mean + written
        if mode in STRENGTH:
            return H - STRENGTH[mode] * written
        raise ValueError(f"mode must be 'keep', 'remove' or 'flip'; got {mode!r}.")


def unit(v: Float[np.ndarray, " D"]) -> Float[np.ndarray, " D"]:
    """v / ‖v‖.

    Raises:
        ValueError: a vector of zeros, or one that holds NaN or infinity.
    """
    v = np.asarray(v, dtype=np.float64)
    largest = np.abs(v).max()
    if not np.isfinite(largest) or largest == 0:
        raise ValueError(
            f"a direction needs a finite length above 0; its largest entry: {largest}."
        )
    v = v / largest  # no square leaves float64
    return v / np.linalg.norm(v)


def check_number(number: Shaped[np.ndarray, " N"], n: int) -> np.ndarray:
    """Return ``number`` as booleans (n,), True for plural.

    Raises:
        ValueError: another length, values other than 0 and 1, or one number only.
    """
    number = np.asarray(number)
    if number.shape != (n,) or not np.isin(number, (0, 1)).all():
        raise ValueError(
            f"number must hold 0 (singular) or 1 (plural) for each of {n} rows; got shape "
            f"{number.shape} with values {np.unique(number)[:5].tolist()}."
        )
    if len(np.unique(number)) < 2:
        raise ValueError(f"every row has number {int(number[0])}; both are needed.")
    return number.astype(bool)


def oriented(
    v: Float[np.ndarray, " D"], H: Float[np.ndarray, "N D"], number: Shaped[np.ndarray, " N"]
) -> Float[np.ndarray, " D"]:
    """v or −v: the one on which plural rows have the larger mean coordinate."""
    plural = check_number(number, len(H))
    gap = (H[plural].mean(axis=0) - H[~plural].mean(axis=0)) @ v
    return v if gap >= 0 else -v


def mean_difference(
    H: Float[np.ndarray, "N D"], number: Shaped[np.ndarray, " N"]
) -> Float[np.ndarray, " D"]:
    """Mean of the plural rows minus mean of the singular rows, as a unit vector."""
    H = check_activations(H)
    plural = check_number(number, len(H))
    return unit(H[plural].mean(axis=0) - H[~plural].mean(axis=0))


def principal_axis(H: Float[np.ndarray, "N D"], component: int = 0) -> Float[np.ndarray, " D"]:
    """The direction of largest variance, or with ``component`` = 1, 2, … of the next ones."""
    _, directions = principal_axes(H)
    if not 0 <= component < directions.shape[1]:
        raise ValueError(
            f"component {component} is not among the {directions.shape[1]} directions that vary."
        )
    return directions[:, component]


def principal_axes(
    H: Float[np.ndarray, "N D"],
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "D m"]]:
    """Variances, high to low, and unit directions of the m directions along which H varies."""
    H = check_activations(H)
    _, sigma, Vt = np.linalg.svd((H - H.mean(axis=0)) / np.sqrt(len(H) - 1), full_matrices=False)
    active = sigma > sigma[0] * max(H.shape) * np.finfo(np.float64).eps
    return sigma[active] ** 2, Vt[active].T


def mean_gradient(J: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " D"]:
    """The mean over inputs of one output's gradient (N, D), as a unit vector."""
    return unit(np.asarray(J, dtype=np.float64).mean(axis=0))


def random_axes(
    H: Float[np.ndarray, "N D"], variance: float, n: int, generator: np.random.Generator
) -> Float[np.ndarray, "n D"]:
    r"""n random unit vectors whose projected variance is exactly σ² = ``variance``.

    With eigenvalues λ and eigenvectors E of cov(H) and g standard normal, the direction is

    .. math:: u \propto E\,(\lambda^t \circ g), \qquad u^\top \mathrm{cov}(H)\, u = \sigma^2.

    t = 0 leaves a uniform (Haar) direction of the span, t = ½ one spread as the activations are.
    The variance of a draw grows with t from the smallest λ to the largest, so each draw has one t,
    found by bisection.

    Why this is fair: removing or flipping a coordinate of variance σ² moves an activation by σ² or
    4σ² in mean square, whatever the direction.  So these axes push as hard as the one whose
    variance they are given, and lean towards the large principal components no more than that
    takes.  A plain Haar direction would push far less, and fail for that reason alone.

    Raises:
        ValueError: n < 1, or a variance outside the range of λ, which no direction of the span has.
    """
    if n < 1:
        raise ValueError(f"n = {n} axes; ask for at least 1.")
    variances, directions = principal_axes(H)
    low, high = variances[-1], variances[0]
    if not low < variance < high:
        raise ValueError(
            f"no random direction has variance {variance:.4g}: those of the activations lie "
            f"between {low:.4g} and {high:.4g}. Was it measured on the same layer?"
        )
    log = np.log(variances / high)
    draws = generator.standard_normal((n, len(variances)))
    axes = _tilted(draws, log, float(np.log(variance / high))) @ directions.T
    return axes / np.linalg.norm(axes, axis=1, keepdims=True)


def _tilted(
    g: Float[np.ndarray, "n m"], log: Float[np.ndarray, " m"], target: float
) -> Float[np.ndarray, "n m"]:
    """Rows g · λᵗ, with the t of each at which Σ λ u² / Σ u² = exp(target); log = log λ ≤ 0."""
    size = np.log(np.abs(g))

    def above(t: np.ndarray) -> np.ndarray:
        log_weights = 2 * (size + t[:, None] * log)
        weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
        return np.log(weights @ np.exp(log) / weights.sum(axis=1)) > target

    low, high = -np.ones(len(g)), np.ones(len(g))
    while (out := above(low)).any():
        low[out] *= 2
    while (out := ~above(high)).any():
        high[out] *= 2
    for _ in range(100):  # each halves the bracket, so this ends at rounding
        middle = (low + high) / 2
        out = above(middle)
        high[out], low[~out] = middle[out], middle[~out]
    size += low[:, None] * log
    return np.sign(g) * np.exp(size - size.max(axis=1, keepdims=True))
