"""Rules of random numbers, attention, recurrent cells, and modules that fx doesn't open."""
import math

import torch
import torch.nn.functional as F

import gradus
from ..fx import Unknown
from ._functions import (FUNCTIONS, METHODS, MODULES, Call, _grad_mode, direct, directly, like,
                         place_of, rule, torch_dtype)

# ---- random: PyTorch's generator, so that seeds mean the same

def noise(x, p):
    if p >= 1:
        return like(x, torch.zeros(tuple(x.shape), dtype=torch_dtype(x.dtype)))
    shape, dtype, place = tuple(x.shape), torch_dtype(x.dtype), place_of(x)
    if x.is_contiguous():
        kept = torch.empty(shape, dtype=dtype, device=place)
    else:  # PyTorch fills in the order of the memory
        kept = torch.empty_like(torch.empty_strided(shape, x.stride(), dtype=dtype, device="meta"),
                                device=place)
    if place != "cpu":  # PyTorch draws in another order there: its own kernel does
        return like(x, F.dropout(kept.fill_(1), p))
    return like(x, kept.bernoulli_(1 - p).div_(1 - p))


def dropout(x, p=0.5, training=True, inplace=False):
    if not training or p == 0:
        return x
    y = x * noise(x, p)
    return x.copy_(y) if inplace else y


FUNCTIONS[F.dropout] = dropout
FUNCTIONS[torch.dropout] = lambda x, p, train: dropout(x, p, train)


@directly(F.scaled_dot_product_attention)
def _attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
               enable_gqa=False):
    if enable_gqa:
        raise Unknown("grouped queries")
    if dropout_p == 0:
        return Call(gradus.scaled_dot_product_attention, q, k, v, attn_mask, is_causal=is_causal,
                    scale=scale or 0.0)
    return Call(attention, q, k, v, attn_mask, dropout_p, is_causal, scale)


def attention(q, k, v, mask=None, dropout_p=0.0, is_causal=False, scale=None, weights=False):
    scale = scale or 1 / math.sqrt(q.shape[-1])
    scores = gradus.matmul(q * scale, gradus.transpose(k, -2, -1))
    if is_causal and mask is None:
        size = tuple(scores.shape[-2:])
        mask = like(q, torch.ones(size, dtype=torch.bool).tril())
    if mask is not None:
        boolean = str(mask.dtype).endswith("bool")
        scores = gradus._gradus.where(mask, scores, -math.inf) if boolean else scores + mask
    share = gradus.softmax(scores, -1)
    if dropout_p:
        share = share * noise(share, dropout_p)
    y = gradus.matmul(share, v)
    return (y, share) if weights else y


@rule(F.multi_head_attention_forward)
def multi_head_attention(query, key, value, size, heads, in_weight, in_bias, bias_k, bias_v,
                         add_zero_attn, dropout_p, out_weight, out_bias, training=True,
                         key_padding_mask=None, need_weights=True, attn_mask=None,
                         use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None,
                         v_proj_weight=None, static_k=None, static_v=None,
                         average_attn_weights=True, is_causal=False, batch_first=False):
    if add_zero_attn or not all(a is None for a in (bias_k, bias_v, static_k, static_v)):
        raise gradus.ValueError("multi_head_attention: bias_k, bias_v, add_zero_attn, static_k and "
                                "static_v are not supported")
    flat = query.ndim == 2
    if flat:
        query, key, value = (gradus.unsqueeze(t, 1) for t in (query, key, value))
    elif batch_first:
        query, key, value = (gradus.transpose(t, 0, 1) for t in (query, key, value))
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else \
        gradus.chunk(in_weight, 3, 0)
    biases = (None,) * 3 if in_bias is None else gradus.chunk(in_bias, 3, 0)
    length, batch = query.shape[0], query.shape[1]

    def split(t, w, b):  # (length, batch, size) -> (batch, heads, length, size / heads)
        t = gradus.linear(t, w) if b is None else gradus.linear(t, w, b)
        return gradus.permute(gradus.reshape(t, (t.shape[0], batch, heads, -1)), (1, 2, 0, 3))

    q, k, v = (split(t, w, b) for t, w, b in zip((query, key, value), weights, biases))
    mask = None
    for m in (attn_mask, key_padding_mask):
        if m is None:
            continue
        if m is key_padding_mask:
            m = gradus.reshape(m, (batch, 1, 1, -1))
        elif m.ndim == 3:
            m = gradus.reshape(m, (batch, heads, length, -1))
        if str(m.dtype).endswith("bool"):
            m = gradus._gradus.where(m, like(q, torch.tensor(-math.inf)), like(q, torch.tensor(0.0)))
        mask = m if mask is None else mask + m
    y, share = attention(q, k, v, mask, dropout_p if training else 0.0, False, None, True)
    y = gradus.reshape(gradus.permute(y, (2, 0, 1, 3)), (length, batch, -1))
    y = gradus.linear(y, out_weight) if out_bias is None else gradus.linear(y, out_weight, out_bias)
    if average_attn_weights and need_weights:
        share = gradus.mean(share, 1)
    if flat:
        y, share = gradus.squeeze(y, 1), gradus.squeeze(share, 0)
    elif batch_first:
        y = gradus.transpose(y, 0, 1)
    return y, share if need_weights else None


def drawn(function):
    """A random function of torch: its numbers, as gradus tensors."""
    def draw(*args, **kwargs):
        args = [torch.from_dlpack(a.detach()) if isinstance(a, gradus.Tensor) else a for a in args]
        return gradus.from_dlpack(function(*args, **kwargs))
    return draw


RANDOM = {torch.rand, torch.randn, torch.randint, torch.randperm, torch.rand_like, torch.randn_like,
          torch.randint_like, torch.bernoulli, torch.normal}
for _f in RANDOM:
    FUNCTIONS[_f] = drawn(_f)
RANDOM |= {F.dropout, torch.dropout, F.multi_head_attention_forward,
           F.scaled_dot_product_attention}


# ---- cells

def _state(x, weight):
    return gradus.zeros((x.shape[0], weight.shape[1]), x.dtype, device=str(x.device))


@rule(torch.lstm_cell)
def lstm_cell(x, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    h, c = hx if hx is not None else (_state(x, w_hh),) * 2
    gates = gradus.linear(x, w_ih, b_ih) + gradus.linear(h, w_hh, b_hh)
    i, f, g, o = gradus.chunk(gates, 4, -1)
    c = gradus.sigmoid(f) * c + gradus.sigmoid(i) * gradus.tanh(g)
    return gradus.sigmoid(o) * gradus.tanh(c), c


@rule(torch.gru_cell)
def gru_cell(x, h, w_ih, w_hh, b_ih=None, b_hh=None):
    h = _state(x, w_hh) if h is None else h
    ri, zi, ni = gradus.chunk(gradus.linear(x, w_ih, b_ih), 3, -1)
    rh, zh, nh = gradus.chunk(gradus.linear(h, w_hh, b_hh), 3, -1)
    z, n = gradus.sigmoid(zi + zh), gradus.tanh(ni + gradus.sigmoid(ri + rh) * nh)
    return n + z * (h - n)


def _cell(function):
    def rule(graph, module, tensor, args, kwargs):
        hx = args[1] if len(args) > 1 else kwargs.get("hx")
        names = ["weight_ih", "weight_hh"] + (["bias_ih", "bias_hh"] if module.bias else [])
        return graph.call_function(function, (args[0], hx, *map(tensor, names)))
    return rule


MODULES[torch.nn.LSTMCell] = _cell(torch.lstm_cell)
MODULES[torch.nn.GRUCell] = _cell(torch.gru_cell)


def _mha(graph, m, tensor, args, kwargs):
    own = [None if t is None else tensor(n) for n, t in
           (("in_proj_weight", m.in_proj_weight), ("in_proj_bias", m.in_proj_bias))]
    out = [tensor("out_proj.weight"),
           None if m.out_proj.bias is None else tensor("out_proj.bias")]
    names = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask",
             "average_attn_weights", "is_causal")
    given = dict(zip(names, args), **kwargs)
    q, k, v = (given.pop(n) for n in names[:3])
    if m.in_proj_weight is None:
        given.update({n: tensor(n) for n in ("q_proj_weight", "k_proj_weight", "v_proj_weight")},
                     use_separate_proj_weight=True)
    return graph.call_function(
        F.multi_head_attention_forward,
        (q, k, v, m.embed_dim, m.num_heads, *own, m.bias_k, m.bias_v, m.add_zero_attn, m.dropout,
         *out, m.training), dict(given, batch_first=m.batch_first))


def _batch_norm(graph, m, tensor, args, kwargs):
    batch = m.training or m.running_mean is None
    names = ("running_mean", "running_var", "weight", "bias")
    if m.training and m.num_batches_tracked is not None:
        graph.call_method("add_", (tensor("num_batches_tracked"), 1))
    if m.momentum is None and m.training:
        raise Unknown("batch_norm with momentum=None")
    given = [None if getattr(m, n) is None else tensor(n) for n in names]
    return graph.call_function(F.batch_norm, (args[0], *given, batch, m.momentum or 0.0, m.eps))


MODULES[torch.nn.MultiheadAttention] = _mha
for _m in (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d):
    MODULES[_m] = _batch_norm


_ON_HOST = {dropout, FUNCTIONS[torch.dropout], attention, multi_head_attention, like, int, float,
            bool, _grad_mode}
_ON_HOST |= {FUNCTIONS[f] for f in RANDOM if not isinstance(FUNCTIONS[f], direct)}
_ON_HOST |= {METHODS[n] for n in ("item", "tolist", "new_full")}


def on_host(function):
    """Does it read values, draw PyTorch's random numbers or change a mode, as no kernel does?"""
    return function in _ON_HOST
