"""jax trains through a contraction of gradus: custom_vjp around pure_callback. [needs jax]"""
import argparse

import jax
import jax.numpy as jnp
import numpy as np

import gradus

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=200)
steps = parser.parse_args().steps

EQUATION = "ai,ijk,bj,ck->abc"
shapes = [(4, 3), (3, 5, 2), (6, 5), (7, 2)]
plan = gradus.contraction.plan(EQUATION, *shapes)


def value(*arrays):
    return np.asarray(plan(*(gradus.from_dlpack(np.asarray(a)) for a in arrays)))


def slopes(cotangent, *arrays):
    leaves = [gradus.from_dlpack(np.asarray(a)).requires_grad_() for a in arrays]
    grads = gradus.grad(plan(*leaves), leaves, gradus.from_dlpack(np.asarray(cotangent)))
    return tuple(np.asarray(g) for g in grads)


@jax.custom_vjp
def contract(*arrays):
    out = jax.ShapeDtypeStruct((4, 6, 7), jnp.float32)
    return jax.pure_callback(value, out, *arrays)


def backward(arrays, g):
    return jax.pure_callback(slopes, tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays), g, *arrays)


contract.defvjp(lambda *arrays: (contract(*arrays), arrays), backward)
rng = np.random.default_rng(0)
wanted = jnp.asarray(rng.normal(size=(4, 6, 7)), jnp.float32)
parameters = [jnp.asarray(rng.normal(size=s) * 0.5, jnp.float32) for s in shapes]
loss = jax.jit(jax.value_and_grad(lambda p: jnp.mean((contract(*p) - wanted) ** 2)))
first = None
for _ in range(steps):
    now, grads = loss(parameters)
    first = first if first is not None else float(now)
    parameters = [p - 0.3 * g for p, g in zip(parameters, grads)]
exact = jax.grad(lambda p: jnp.mean((jnp.einsum(EQUATION, *p) - wanted) ** 2))(parameters)
error = max(float(jnp.abs(a - b).max()) for a, b in zip(exact, loss(parameters)[1]))
print(f"loss {first:.4f} -> {float(now):.4f}; gradients differ from jax's own by {error:.1e}")
assert float(now) < first and error < 1e-5
