r"""The unembedding difference, pulled back through the final norm.

The margin of a verb pair is δ·norm(h) + constant, with δ = W_U[plural] − W_U[singular] and the norm

.. math:: \mathrm{norm}(h) = \gamma \circ x / \sqrt{\overline{x^2} + \epsilon} + \beta,

where x = h for RMSNorm and x = h − mean(h) for LayerNorm.  A soft cap on logits is left out: it is
the same for both verbs and almost straight where logits are small against the cap.

``gamma`` is what the norm multiplies by.  Gemma stores it less 1, so give it 1 + weight.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from helpers.axes import unit


def fixed_direction(
    gamma: Float[np.ndarray, " D"], delta: Float[np.ndarray, " D"], *, centred: bool
) -> Float[np.ndarray, " D"]:
    """The margin's gradient with the norm's scale held, as a unit vector: γ∘δ, the same for all h.

    With ``centred`` (LayerNorm) its mean over the D entries is taken away, as the norm does.
    """
    g = np.asarray(gamma, np.float64) * np.asarray(delta, np.float64)
    return unit(g - g.mean() if centred else g)


def norm_gradients(
    H: Float[np.ndarray, "N D"],
    gamma: Float[np.ndarray, " D"],
    delta: Float[np.ndarray, " D"],
    *,
    eps: float,
    centred: bool,
) -> Float[np.ndarray, "N D"]:
    r"""The margin's exact gradient at each h, the norm's scale included.

    With g = γ∘δ and :math:`r^2 = \overline{x^2} + \epsilon`:
    :math:`\nabla = \frac1r\,(g - x\,(x\cdot g) / (D r^2))`, minus its mean for LayerNorm.
    The mean over inputs, scaled to length 1, is the second form of this handle.

    Raises:
        ValueError: a negative eps, or a row of zeros with eps = 0, where the norm is undefined.
    """
    H = np.asarray(H, dtype=np.float64)
    x = H - H.mean(axis=1, keepdims=True) if centred else H
    square = (x**2).mean(axis=1, keepdims=True) + eps
    if eps < 0 or not (square > 0).all():
        raise ValueError(
            f"the final norm is undefined: eps = {eps}, smallest mean square "
            f"{float(square.min()):.3g}. Give the eps of the model's config."
        )
    g = np.asarray(gamma, np.float64) * np.asarray(delta, np.float64)
    gradients = (g - x * (x @ g)[:, None] / (H.shape[1] * square)) / np.sqrt(square)
    return gradients - gradients.mean(axis=1, keepdims=True) if centred else gradients
