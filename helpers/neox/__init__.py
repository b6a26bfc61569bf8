"""GPT-NeoX, Pythia's architecture, at a small size: trained here on prose, kept as usual runs.

- ``model``: sizes as a configuration of transformers, and a model at its start.
- ``text``: the corpus as tokens, read once and kept.
- ``training``: next-token prediction on it, as a task for the trainer.
"""
