"""The plain way: PyTorch's encoder layer, a DataLoader, AdamW, many small steps.

It is what one would write after the tutorial, on the paper's schedule (Schiffman 2026, the Markov
experiment): 3,000 sequences of length 32, batch 64, 40 epochs, learning rate 1e-4, dropout 0.1.
Nothing is slowed down: data lie in memory, the mask is made once, PyTorch knows it is causal.
"""

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

from helpers.tasks.markov import Chain

N_SEQUENCES, LENGTH, BATCH, EPOCHS, LR = 3000, 32, 64, 40, 1e-4
STEPS_PER_EPOCH = -(-N_SEQUENCES // BATCH)  # 47; the last batch is smaller
D_MODEL, N_HEADS, D_MLP, DROPOUT = 64, 4, 256, 0.1


class PlainTransformer(nn.Module):
    """One post-norm encoder layer with a causal mask, between an embedding and a linear head."""

    def __init__(self, d_vocab: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(d_vocab, D_MODEL)
        self.position = nn.Embedding(LENGTH, D_MODEL)
        self.layer = nn.TransformerEncoderLayer(
            D_MODEL, N_HEADS, dim_feedforward=D_MLP, dropout=DROPOUT, batch_first=True
        )
        self.head = nn.Linear(D_MODEL, d_vocab)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def hidden(self, tokens: torch.Tensor) -> torch.Tensor:
        """What the head reads, (batch, LENGTH, D_MODEL)."""
        x = self.embed(tokens) + self.position(torch.arange(LENGTH))
        return self.layer(x, src_mask=self.mask, is_causal=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.hidden(tokens))


class Baseline:
    """A training run that can be advanced epoch by epoch, so that it can be timed in pieces."""

    def __init__(self, chain: Chain, seed: int) -> None:
        torch.manual_seed(seed)
        sequences = chain.sample(np.random.default_rng(seed), N_SEQUENCES, LENGTH)
        data = TensorDataset(torch.from_numpy(sequences))
        self.loader = DataLoader(data, batch_size=BATCH, shuffle=True)
        self.model = PlainTransformer(chain.d_vocab)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LR)
        self.loss_of = nn.CrossEntropyLoss()

    def run(self, epochs: int) -> float:
        """Train for ``epochs`` more epochs; return the last one's mean loss in nats."""
        self.model.train()
        for _ in range(epochs):
            total = 0.0
            for (tokens,) in self.loader:
                logits = self.model(tokens)
                loss = self.loss_of(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.item()
        return total / len(self.loader)
