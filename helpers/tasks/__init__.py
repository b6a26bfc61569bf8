"""Data with known ground truth: numpy in, numpy out."""
