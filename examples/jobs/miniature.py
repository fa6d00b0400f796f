"""A language model with 100,000 parameters, and training texts that are generated on demand.

The base model has learned to count ("41 42 43"). Fine-tuning teaches it to answer questions ("after 41: 42").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional

ALPHABET = "\n 0123456789:abcdefghijklmnopqrstuvwxyz"
LENGTH = 12
SMALLEST, LARGEST = 10, 99  # two-digit numbers


class Block(nn.Module):
    """A layer in which every position of the text attends to the positions before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_linear = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.linear = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.attention(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.linear(self.before_linear(x))


class Model(nn.Module):
    """Predicts the next character at each position of a text."""

    def __init__(self, width: int = 64, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(len(ALPHABET), width), nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.end = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, len(ALPHABET)))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.characters(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.end(x)


def counting(number: int) -> str:
    """Return a training text of the base model."""
    return " ".join(str(number + step) for step in range(3))


def question(number: int) -> str:
    """Return a question for fine-tuning."""
    return f"after {number}: "


def answer(number: int) -> str:
    """Return the answer to a question."""
    return str(number + 1)


def encoded(texts: Sequence[str]) -> torch.Tensor:
    """Encode texts as numbers, padded to the same length."""
    return torch.tensor([[ALPHABET.index(one) for one in text.ljust(LENGTH, "\n")] for text in texts])


def batch(line: Callable[[int], str], step: int, size: int) -> torch.Tensor:
    """Return the texts of a training step. They are the same in every process."""
    drawn = torch.randint(SMALLEST, LARGEST - 1, (size,), generator=torch.Generator().manual_seed(step))
    return encoded([line(number) for number in drawn.tolist()])


def loss_of(model: nn.Module, texts: torch.Tensor) -> torch.Tensor:
    """Return the loss of a model's predictions of each next character."""
    predicted = model(texts[:, :-1])
    return functional.cross_entropy(predicted.flatten(0, 1), texts[:, 1:].flatten())


def base_model(steps: int = 300, **sizes: int) -> Model:
    """Return a model that can count. In your own program, load the weights of a published model here."""
    torch.manual_seed(0)
    model = Model(**sizes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        loss_of(model, batch(counting, step, 32)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


@torch.no_grad()
def completed(model: nn.Module, texts: Sequence[str], characters: int) -> list[str]:
    """Return the model's completion of each text. All completions are generated as one batch."""
    longest = LENGTH - characters
    if any(len(text) > longest or set(text) - set(ALPHABET) for text in texts):
        raise ValueError(f"expected at most {longest} of the characters {ALPHABET!r}")
    device = next(model.parameters()).device
    tokens, ends = encoded(texts).to(device), torch.tensor([len(text) for text in texts], device=device)
    rows = torch.arange(len(texts), device=device)
    for step in range(characters):
        tokens[rows, ends + step] = model(tokens)[rows, ends + step - 1].argmax(dim=-1)
    found = tokens.tolist()
    return [
        "".join(ALPHABET[one] for one in row[len(text) : len(text) + characters])
        for row, text in zip(found, texts, strict=True)
    ]


def share_of_right_answers(model: nn.Module) -> float:
    """Return the share of all questions that the model answers correctly."""
    numbers = range(SMALLEST, LARGEST - 1)
    said = completed(model, [question(number) for number in numbers], 2)
    right = sum(one == answer(number) for one, number in zip(said, numbers, strict=True))
    return right / len(numbers)
