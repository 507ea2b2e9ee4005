"""gradus.nn and gradus.optim against the program's trainer: the same losses, bit for bit."""
import pytest

import gradus
from gradus import nn, optim


def linear():
    return nn.Sequential(nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 10))


def convolved():
    return nn.Sequential(nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 4, 5, stride=2),
                         nn.BatchNorm2d(4), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(144, 10), nn.LayerNorm(10))


class Places(nn.Module):
    """Adds row i of a learned table at place i."""

    def __init__(self, length, dim):
        super().__init__()
        self.weight = nn.Parameter(gradus.normal((length, dim)))

    def forward(self, x):
        return x + self.weight[:x.shape[1]]


class Attend(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x, is_causal=True, need_weights=False)[0]


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


def transformer():
    return nn.Sequential(
        nn.Embedding(17, 16), Places(20, 16),
        Residual(nn.LayerNorm(16), Attend(16, 4, batch_first=True)),
        Residual(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)),
        nn.LayerNorm(16), nn.Linear(16, 17))


DIGITS = {"name": "digits", "train": 160, "test": 16}
LINEAR = [{"linear": 16}, "relu", {"linear": 10}]
CONVOLVED = [{"unflatten": [1, 28, 28]},
             {"conv2d": {"out_channels": 4, "kernel_size": 5, "stride": 2}}, "batch_norm", "tanh",
             {"max_pool2d": {"kernel_size": 2}}, "flatten", {"linear": 10}, "layer_norm"]
TRANSFORMER = [
    {"embedding": {"num_embeddings": 17, "embedding_dim": 16}}, "positional_embedding",
    {"residual": ["layer_norm", {"multi_head_attention": {"num_heads": 4, "causal": True}}]},
    {"residual": ["layer_norm", {"linear": 32}, "gelu", {"linear": 16}]}, "layer_norm",
    {"linear": 17}]


@pytest.mark.parametrize("make, layers, data, rule, clip_norm", [
    (linear, LINEAR, DIGITS, {"name": "adam", "lr": 2e-3}, 0),
    (linear, LINEAR, DIGITS, {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-3}, 0),
    (convolved, CONVOLVED, DIGITS, {"name": "adamw", "lr": 1e-2, "weight_decay": 0.1}, 0),
    (transformer, TRANSFORMER, {"name": "copy", "train": 160, "test": 8, "symbols": 16,
                                "length": 10}, {"name": "adamw", "lr": 1e-2}, 0.1)])
def test_losses_are_the_programs_bit_for_bit(make, layers, data, rule, clip_norm):
    config = {"experiment": "network", "seed": 3, "data": data, "model": {"layers": layers},
              "loss": "cross_entropy", "optimizer": rule, "epochs": 2, "batch_size": 64}
    if clip_norm:
        config["clip_norm"] = clip_norm
    trainer = gradus._gradus.Trainer(config)
    gradus.manual_seed(3)
    model = make()
    kind = {"sgd": optim.SGD, "adam": optim.Adam, "adamw": optim.AdamW}[rule["name"]]
    optimizer = kind(model.parameters(), **{k: v for k, v in rule.items() if k != "name"})
    inputs, targets = gradus._gradus._read_data(data)[:2]
    for epoch in range(2):
        order = gradus._gradus.epoch_order(160, 3, epoch)
        for at in range(0, 160, 64):
            batch = order[at:at + 64]
            logits = model(inputs[batch])
            loss = nn.functional.cross_entropy(logits.reshape((-1, logits.shape[-1])),
                                               targets[batch].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            if clip_norm:
                nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
            trainer.step()
            assert loss.item() == trainer.last_loss
        trainer.finish_epoch()
