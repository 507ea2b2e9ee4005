"""One network, trained three ways: PyTorch, gradus, torch.compile(backend="gradus"). [needs torch]"""
import argparse
import time

import torch

import gradus
import gradus.torch

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=2000)
steps = parser.parse_args().steps
torch.set_num_threads(1)
torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randint(0, 4, (32,))


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16),
                               torch.nn.Tanh(), torch.nn.Linear(16, 4))


def timed(step):
    for _ in range(5):
        step()  # compiling and recording are not the step
    began = time.perf_counter()
    for _ in range(steps):
        loss = step()
    return (time.perf_counter() - began) / steps * 1e6, float(loss)


def in_torch(model, run):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        loss = run(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()
    return step


def loss_of(model):
    return lambda a, b: torch.nn.functional.cross_entropy(model(a), b)


def in_gradus():
    model = gradus.nn.Sequential(gradus.nn.Linear(8, 16), gradus.nn.Tanh(), gradus.nn.Linear(16, 16),
                                 gradus.nn.Tanh(), gradus.nn.Linear(16, 4))
    model.load_state_dict({k: gradus.from_dlpack(v.detach()) for k, v in network().state_dict().items()})
    optimizer = gradus.optim.SGD(model.parameters(), lr=0.1)
    gx, gy = gradus.from_dlpack(x), gradus.from_dlpack(y)

    def step():
        optimizer.zero_grad()
        loss = gradus.cross_entropy(model(gx), gy)
        loss.backward()
        optimizer.step()
        return loss.detach()
    return step


eager, compiled = network(), network()
rows = {"PyTorch": in_torch(eager, loss_of(eager)), "gradus": in_gradus(),
        "gradus, compiled": gradus.compile(in_gradus()),
        "torch.compile(backend=\"gradus\")":
            in_torch(compiled, torch.compile(loss_of(compiled), backend="gradus"))}
for name, step in rows.items():
    us, loss = timed(step)
    print(f"{name:34} {us:8.1f} us a step, loss {loss:.6f}")
