"""Activations as modules."""
from .. import _gradus
from . import functional as F
from .layers import REQUIRED, op_module
from .module import Module
from .parameter import Parameter

_activation = op_module(__name__)
ReLU = _activation("ReLU", F.relu, "max(x, 0)", inplace=False)
ReLU6 = _activation("ReLU6", F.relu6, "min(max(x, 0), 6)", inplace=False)
LeakyReLU = _activation("LeakyReLU", F.leaky_relu, "x, below 0 times negative_slope",
                        negative_slope=0.01, inplace=False)
ELU = _activation("ELU", F.elu, "x, below 0 alpha (exp(x) - 1)", alpha=1.0, inplace=False)
CELU = _activation("CELU", F.celu, "x, below 0 alpha (exp(x / alpha) - 1)", alpha=1.0, inplace=False)
SELU = _activation("SELU", F.selu, "elu, scaled to keep mean 0 and variance 1", inplace=False)
GELU = _activation("GELU", F.gelu, "x times the normal distribution function", approximate="none")
SiLU = _activation("SiLU", F.silu, "x sigmoid(x)", inplace=False)
Mish = _activation("Mish", F.mish, "x tanh(softplus(x))", inplace=False)
Sigmoid = _activation("Sigmoid", F.sigmoid, "1 / (1 + exp(-x))")
Tanh = _activation("Tanh", F.tanh, "tanh(x)")
Softplus = _activation("Softplus", F.softplus, "log(1 + exp(beta x)) / beta", beta=1.0,
                       threshold=20.0)
Softsign = _activation("Softsign", F.softsign, "x / (1 + |x|)")
Softshrink = _activation("Softshrink", F.softshrink, "x moved by lambd towards 0", lambd=0.5)
Hardshrink = _activation("Hardshrink", F.hardshrink, "x, and 0 within lambd", lambd=0.5)
Tanhshrink = _activation("Tanhshrink", F.tanhshrink, "x - tanh(x)")
Hardtanh = _activation("Hardtanh", F.hardtanh, "x held in [min_val, max_val]", min_val=-1.0,
                       max_val=1.0, inplace=False)
Hardsigmoid = _activation("Hardsigmoid", F.hardsigmoid, "relu6(x + 3) / 6", inplace=False)
Hardswish = _activation("Hardswish", F.hardswish, "x relu6(x + 3) / 6", inplace=False)
LogSigmoid = _activation("LogSigmoid", F.logsigmoid, "log(sigmoid(x))")
Threshold = _activation("Threshold", F.threshold, "x above threshold, else value",
                        threshold=REQUIRED, value=REQUIRED, inplace=False)
GLU = _activation("GLU", F.glu, "one half of axis dim times sigmoid of the other", dim=-1)
Softmax = _activation("Softmax", F.softmax, "softmax along axis dim", dim=REQUIRED)
Softmax2d = _activation("Softmax2d", lambda x: F.softmax(x, -3), "softmax of the channels at each pixel")
LogSoftmax = _activation("LogSoftmax", F.log_softmax, "log softmax along axis dim", dim=REQUIRED)
Softmin = _activation("Softmin", F.softmin, "softmax of -x along axis dim", dim=REQUIRED)
CosineSimilarity = _activation("CosineSimilarity", F.cosine_similarity,
                               "cosine of the angle between x1 and x2 along axis dim", dim=1,
                               eps=1e-8)
PairwiseDistance = _activation("PairwiseDistance", F.pairwise_distance,
                               "norm of x1 - x2 along the last axis", p=2.0, eps=1e-6,
                               keepdim=False)


class PReLU(Module):
    """x, below 0 times a learned weight: one number, or one for each channel (axis 1)."""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = Parameter(_gradus.full((num_parameters,), init, dtype=dtype, device=device))

    def forward(self, x):
        return F.prelu(x, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"
