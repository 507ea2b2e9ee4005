"""Losses as modules: module(input, target). reduction is "mean", "sum" or "none"."""
from . import functional as F
from .layers import op_module

_made = op_module(__name__)


def _loss(name, op, doc, **options):
    return _made(name, op, doc, **{**options, "reduction": "mean"})


MSELoss = _loss("MSELoss", F.mse_loss, "(input - target)^2")
L1Loss = _loss("L1Loss", F.l1_loss, "|input - target|")
SmoothL1Loss = _loss("SmoothL1Loss", F.smooth_l1_loss,
                     "d^2 / (2 beta) for |d| < beta, else |d| - beta / 2", beta=1.0)
HuberLoss = _loss("HuberLoss", F.huber_loss,
                  "d^2 / 2 for |d| < delta, else delta (|d| - delta / 2)", reduction="mean",
                  delta=1.0)
CrossEntropyLoss = _loss(
    "CrossEntropyLoss", F.cross_entropy,
    "-log softmax at the target: logits (n, classes, ...), target (n, ...) of integers, or "
    "probabilities as the logits; weight (classes,)",
    weight=None, ignore_index=-100, label_smoothing=0.0)
NLLLoss = _loss("NLLLoss", F.nll_loss,
                "-input at the target: log probabilities (n, classes, ...), target (n, ...)",
                weight=None, ignore_index=-100)
BCELoss = _loss("BCELoss", F.binary_cross_entropy, "cross-entropy of probabilities", weight=None)
BCEWithLogitsLoss = _loss("BCEWithLogitsLoss", F.binary_cross_entropy_with_logits,
                          "cross-entropy of sigmoid(input)", weight=None, pos_weight=None)
KLDivLoss = _loss("KLDivLoss", F.kl_div,
                  "target (log target - input), the input being a logarithm; also \"batchmean\"",
                  log_target=False)
PoissonNLLLoss = _loss("PoissonNLLLoss", F.poisson_nll_loss, "exp(input) - target input",
                       log_input=True, full=False, eps=1e-8)
GaussianNLLLoss = _loss("GaussianNLLLoss", F.gaussian_nll_loss,
                        "(log var + (input - target)^2 / var) / 2: module(input, target, var)",
                        full=False, eps=1e-6)
SoftMarginLoss = _loss("SoftMarginLoss", F.soft_margin_loss, "log(1 + exp(-target input))")
MultiLabelSoftMarginLoss = _loss("MultiLabelSoftMarginLoss", F.multilabel_soft_margin_loss,
                                 "cross-entropy of sigmoid(input), the mean over classes", weight=None)
MultiMarginLoss = _loss("MultiMarginLoss", F.multi_margin_loss,
                        "sum of max(0, margin - input[target] + input[c])^p", p=1, margin=1.0)
HingeEmbeddingLoss = _loss("HingeEmbeddingLoss", F.hinge_embedding_loss,
                           "input where target is 1, else max(0, margin - input)", margin=1.0)
MarginRankingLoss = _loss("MarginRankingLoss", F.margin_ranking_loss,
                          "max(0, -target (x1 - x2) + margin): module(x1, x2, target)", margin=0.0)
CosineEmbeddingLoss = _loss("CosineEmbeddingLoss", F.cosine_embedding_loss,
                            "1 - cos where target is 1, else max(0, cos - margin)", margin=0.0)
TripletMarginLoss = _loss("TripletMarginLoss", F.triplet_margin_loss,
                          "max(0, margin + |a - p| - |a - n|): module(anchor, positive, negative)",
                          margin=1.0, p=2.0, eps=1e-6, swap=False)
