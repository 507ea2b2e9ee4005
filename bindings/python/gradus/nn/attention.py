"""Attention between sequences, and what is built of it: encoder, decoder, transformer."""
import copy
import math

from .. import _gradus
from . import functional as F
from . import init
from .containers import ModuleList
from .layers import Dropout, Linear, new_parameter
from .module import Module, error
from .normalization import LayerNorm


class MultiheadAttention(Module):
    """Each place of query looks at the places of key, in num_heads ways at once.

    query (length, n, embed_dim), key and value (source, n, embed_dim); with batch_first n is the
    first axis. Gives (output, weights): weights (n, length, source), averaged over the heads, or
    None without need_weights. In a boolean mask True means: don't look there."""

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, batch_first=False,
                 device=None, dtype=None):
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise error("ValueError", self, f"{embed_dim} features do not divide into {num_heads} "
                        f"heads")
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.dropout, self.batch_first = dropout, batch_first
        made = {"dtype": dtype, "device": device}
        self.in_proj_weight = new_parameter(3 * embed_dim, embed_dim, **made)
        self.register_parameter("in_proj_bias", new_parameter(3 * embed_dim, **made) if bias
                                else None)
        init.xavier_uniform_(self.in_proj_weight)
        self.out_proj = Linear(embed_dim, embed_dim, bias=False, **made)
        if bias:  # starts as 0, and draws no numbers
            self.out_proj.bias = new_parameter(embed_dim, **made)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        alone = query.ndim == 2
        same = query is key and key is value
        if alone:
            query, key, value = (t.unsqueeze(0) for t in (query, key, value))
        elif not self.batch_first and query.ndim == 3:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        for name, t in (("query", query), ("key", key), ("value", value)):
            if t.ndim != 3 or t.shape[2] != self.embed_dim:
                raise error("ShapeError", self, f"expected {self.embed_dim} features in three axes "
                            f"(or two), {name} has shape {tuple(t.shape)}")
        if key.shape[:2] != value.shape[:2] or key.shape[0] != query.shape[0]:
            raise error("ShapeError", self, f"query, key and value are of {query.shape[0]}, {key.shape[0]} and "
                        f"{value.shape[0]} examples, key and value of {key.shape[1]} and {value.shape[1]} places; "
                        f"expected as many each")
        q, k, v = self._packed(query) if same else self._apart(query, key, value)
        mask = self._mask(attn_mask, key_padding_mask, query.shape[0], q.dtype)
        causal = is_causal and mask is None
        drop = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            weights = self._weights(q, k, mask, causal)
            looked = F.dropout(weights, drop, self.training) @ v
        else:
            looked = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=drop,
                                                    is_causal=causal)
        out = self.out_proj(looked.permute((0, 2, 1, 3)).reshape(query.shape))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if alone:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return out if self.batch_first else out.transpose(0, 1), weights

    def _packed(self, x):
        n, length, dim = x.shape
        packed = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        packed = packed.reshape((n, length, 3, self.num_heads, dim // self.num_heads))
        packed = packed.permute((2, 0, 3, 1, 4))
        return packed[0], packed[1], packed[2]

    def _apart(self, *inputs):
        dim, heads = self.embed_dim, self.num_heads
        for i, x in enumerate(inputs):
            part = slice(i * dim, (i + 1) * dim)
            bias = None if self.in_proj_bias is None else self.in_proj_bias[part]
            y = F.linear(x, self.in_proj_weight[part], bias)
            yield y.reshape((*x.shape[:2], heads, dim // heads)).permute((0, 2, 1, 3))

    def _mask(self, attn_mask, padding, n, dtype):
        """Both masks as one that is added to scores (n, heads, length, source), or None."""
        total = None
        for mask, is_padding in ((attn_mask, False), (padding, True)):
            if mask is None:
                continue
            if mask.dtype == _gradus.bool:
                mask = _gradus.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(
                    mask, -math.inf)
            if is_padding:
                mask = mask.reshape((n, 1, 1, -1))
            elif mask.ndim == 3:
                mask = mask.reshape((n, self.num_heads, *mask.shape[1:]))
            total = mask if total is None else total + mask
        return total

    def _weights(self, q, k, mask, causal):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if causal:
            mask = _gradus.full(scores.shape[-2:], -math.inf, dtype=q.dtype, device=q.device)
            mask = mask.triu(1)
        return F.softmax(scores if mask is None else scores + mask, -1)

    def extra_repr(self):
        return f"{self.embed_dim}, {self.num_heads}, batch_first={self.batch_first}"


class _Layer(Module):
    """Attentions and two linear maps, each added to its input and normalised, after it or before."""
    attentions = ("self_attn",)

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu,
                 layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None,
                 dtype=None):
        super().__init__()
        made = {"dtype": dtype, "device": device}
        for name in self.attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first, **made))
        self.linear1 = Linear(d_model, dim_feedforward, bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **made)
        parts = range(1, len(self.attentions) + 2)
        for i in parts:
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **made))
        for i in parts:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.norm_first = norm_first
        if isinstance(activation, str):
            if activation not in ("relu", "gelu"):
                raise error("ValueError", self, f"activation is {activation!r}, expected relu, "
                            f"gelu or a function")
            activation = getattr(F, activation)
        self.activation = activation

    def _added(self, i, x, part):
        norm, dropout = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
        return x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))

    @staticmethod
    def _attended(attention, x, memory, mask, padding, is_causal):
        return attention(x, memory, memory, key_padding_mask=padding, need_weights=False, attn_mask=mask,
                         is_causal=is_causal)[0]

    def _fed(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Attention and two linear maps, each added to its input and normalised (Vaswani et al., 2017).

    (length, n, d_model) -> the same; with batch_first n is the first axis."""

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        masks = src_mask, src_key_padding_mask, is_causal
        x = self._added(1, src, lambda y: self._attended(self.self_attn, y, y, *masks))
        return self._added(2, x, self._fed)


class TransformerDecoderLayer(_Layer):
    """As TransformerEncoderLayer, with an attention to `memory`, the encoder's result, in between.

    tgt (length, n, d_model), memory (source, n, d_model) -> as tgt."""
    attentions = ("self_attn", "multihead_attn")

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):
        own = tgt_mask, tgt_key_padding_mask, tgt_is_causal
        others = memory_mask, memory_key_padding_mask, memory_is_causal
        x = self._added(1, tgt, lambda y: self._attended(self.self_attn, y, y, *own))
        x = self._added(2, x, lambda y: self._attended(self.multihead_attn, y, memory, *others))
        return self._added(3, x, self._fed)


class TransformerEncoder(Module):
    """num_layers copies of a TransformerEncoderLayer, one after another, then `norm` if given."""

    def __init__(self, encoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=False):
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """num_layers copies of a TransformerDecoderLayer, one after another, then `norm` if given."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt, memory, *masks, **named_masks):
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, **named_masks)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder (Vaswani et al., 2017): src (source, n, d_model), tgt (length, n,
    d_model) -> as tgt; with batch_first n is the first axis."""

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6,
                 dim_feedforward=2048, dropout=0.1, activation=F.relu, custom_encoder=None,
                 custom_decoder=None, layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True,
                 device=None, dtype=None):
        super().__init__()
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
                 bias, device, dtype)

        def norm():
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.encoder = custom_encoder if custom_encoder is not None else TransformerEncoder(
            TransformerEncoderLayer(*layer), num_encoder_layers, norm())
        self.decoder = custom_decoder if custom_decoder is not None else TransformerDecoder(
            TransformerDecoderLayer(*layer), num_decoder_layers, norm())
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
                tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=False,
                tgt_is_causal=False, memory_is_causal=False):
        for name, x in (("src", src), ("tgt", tgt)):
            if x.ndim not in (2, 3) or x.shape[-1] != self.d_model:
                raise error("ShapeError", self, f"expected {self.d_model} features in three axes (or two), "
                            f"{name} has shape {tuple(x.shape)}")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                            tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """-inf above the diagonal, else 0: no place looks at later ones."""
        return _gradus.full((sz, sz), -math.inf, dtype=dtype or _gradus.float32, device=device).triu(1)
