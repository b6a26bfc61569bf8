"""Two models' activations on the same inputs: are they one thing in two bases?

Rows are inputs throughout, so a map acts from the right: y ≈ (x − mean_x) R + mean_y.

- ``maps``, ``baselines``: a rotation fitted to both models, and maps that know less.
- ``variance``, ``principal``: how well a map does, and on how many dimensions.
- ``split_half``: is the rotation shared structure, or would any two models have one?
- ``haar``, ``spectrum``, ``haar_tests``, ``holm``: does it look random? Tests of known size.
- ``alternatives``, ``power``: what those tests notice.
- ``geodesic``, ``cka``: the path to a rotation; similarity that needs none.

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577).
"""
