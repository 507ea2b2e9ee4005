"""For compare_torch.py: functions that PyTorch differentiates otherwise than gradus does."""
import torch
import torch.nn.functional as F

from compare_torch_ops import whole


def reduced(loss, a):
    return {"none": lambda t: t, "sum": torch.sum, "mean": torch.mean}[a["reduction"]](loss)


def weighted_classes(x, a):
    scores, target, weight = x
    if "label_smoothing" in a:
        scores = torch.log_softmax(scores, min(1, scores.dim() - 1))
    axis = min(1, scores.dim() - 1)
    if target.is_floating_point():  # probabilities
        share = target * (1 - a["label_smoothing"]) + a["label_smoothing"] / scores.size(axis)
        shape = [-1 if d == axis else 1 for d in range(scores.dim())]
        loss = -(share * scores * weight.reshape(shape)).sum(axis)
        return reduced(loss, a) if a["reduction"] != "mean" else loss.sum() / max(1, loss.numel())
    ignored = target == a["ignore_index"]
    index = target.masked_fill(ignored, 0)
    share = weight[index].masked_fill(ignored, 0.0)
    loss = -scores.gather(axis, index.unsqueeze(axis)).squeeze(axis) * share
    smoothing = a.get("label_smoothing", 0.0)
    if smoothing:
        shape = [-1 if d == axis else 1 for d in range(scores.dim())]
        every = -(scores * weight.reshape(shape)).sum(axis).masked_fill(ignored, 0.0)
        loss = loss * (1 - smoothing) + every * smoothing / scores.size(axis)
    return loss.sum() / share.sum() if a["reduction"] == "mean" else reduced(loss, a)


def weighted_margins(x, a):
    scores, target = x[:2]
    index = target.unsqueeze(-1)
    cost = F.relu(scores - scores.gather(-1, index) + a["margin"]) ** whole(a["p"])
    if len(x) > 2:
        cost = cost * x[2][index]
    return reduced(cost.scatter(-1, index, 0.0).sum(-1) / scores.size(-1), a)


def weighted_bce(x, a):
    return reduced(F.binary_cross_entropy(*x[:2], reduction="none") * x[2], a)


def weighted_logits(x, a):
    scores, target, weight = x[:3]
    rise = 1 + (x[3] - 1) * target if len(x) > 3 else 1
    return reduced(((1 - target) * scores - rise * F.logsigmoid(scores)) * weight, a)


def batch_statistics(x, a):
    if a["training"]:  # does not read the running ones
        return F.batch_norm(x[0], None, None, *x[3:], training=True, eps=a["eps"])
    shape = [-1 if d == 1 else 1 for d in range(x[0].dim())]
    mean, var = (t.reshape(shape) for t in x[1:3])
    y = (x[0] - mean) / torch.sqrt(var + a["eps"])
    for t, f in zip(x[3:], (torch.mul, torch.add)):
        y = f(y, t.reshape(shape))
    return y


def running_logsumexp(x, a):
    if x[0].dim() == 0 or x[0].numel() == 0:
        return x[0] + 0
    top = x[0].detach().amax(a["dim"], keepdim=True)
    return (x[0] - top).exp().cumsum(a["dim"]).log() + top


def scattered(x, a):
    place = torch.arange(x[0].numel()).as_strided(x[1].shape, a["stride"], a["offset"])
    return x[0].reshape(-1).scatter(0, place.reshape(-1), x[1].reshape(-1)).reshape(x[0].shape)


# Where PyTorch holds an operand constant that gradus differentiates, or its derivative reads memory
# that it never wrote (WRONG_SLOPES), derivatives are those of the same function in other ops of
# PyTorch; compare_torch.py checks that the values agree.
WRONG_SLOPES = {"as_strided_scatter", "trace"}
WRONG_JVP = {"logcumsumexp": running_logsumexp}  # NaN
SLOPES = {"nll_loss": weighted_classes, "cross_entropy": weighted_classes, "multi_margin_loss": weighted_margins,
          "binary_cross_entropy": weighted_bce, "binary_cross_entropy_with_logits": weighted_logits,
          "batch_norm": batch_statistics, "as_strided_scatter": scattered, "trace": lambda x, a: x[0].diagonal().sum()}
