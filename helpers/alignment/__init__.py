"""Two models' activations on the same inputs: are they one thing in two bases?

Rows are inputs throughout, so a map acts from the right: y ≈ (x − mean_x) R + mean_y.

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577).
"""
