r"""The symmetry group of folded models: that of :mod:`helpers.symmetry`, with biases.

Beside what :mod:`helpers.symmetry.group` does to weights, an element changes biases as

.. math::
    b_Q^i \to b_Q^{p_i} A_i, \quad b_O \to b_O R, \quad
    b_{in}^j \to s_j b_{in}^{n_j}, \quad b_{out} \to b_{out} R, \quad b_U \to b_U.

``Symmetry``, ``compose``, ``inverse`` and ``random_element`` are that package's own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from helpers.merging.forms import Form
from helpers.symmetry.group import Symmetry, moved

WRITERS = ("W_E", "W_pos", "W_O", "b_O", "W_out", "b_out")
READERS = ("W_Q", "W_K", "W_V", "W_in", "W_U")
LABELLED = ("W_E", "W_pos", "b_O", "b_out", "W_U")
"""What R alone acts on: its rows have names, and no permutation moves them."""


def transform(form: Form, g: Symmetry) -> Form:
    """Weights of the same function.

    Raises:
        ValueError: an element of a model of other sizes.
    """
    layer = np.arange(len(g.heads))[:, None]
    heads, neurons = (layer, g.heads), (layer, g.neurons)
    return replace(
        form,
        **moved(form, g),
        b_Q=np.einsum("lhk,lhkj->lhj", form.b_Q[heads], g.QK),
        b_O=form.b_O @ g.R,
        b_in=form.b_in[neurons] * g.scales,
        b_out=form.b_out @ g.R,
    )


def rows(form: Form, name: str) -> Float[np.ndarray, "n d_model"]:
    """A tensor as rows of the residual stream: what it writes, or the directions that it reads.

    A rotation R takes each row x to x R.
    """
    value = getattr(form, name)
    if name in READERS:
        value = value.swapaxes(-1, -2)
    return value.reshape(-1, form.W_E.shape[1])


def from_rows(
    form: Form, name: str, value: Float[np.ndarray, "n d_model"]
) -> Float[np.ndarray, ...]:
    """The tensor of these rows: the way back from :func:`rows`."""
    shape = getattr(form, name).shape
    if name not in READERS:
        return value.reshape(shape)
    return value.reshape(*shape[:-2], shape[-1], shape[-2]).swapaxes(-1, -2)
