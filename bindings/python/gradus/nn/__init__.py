"""Networks: modules with parameters, layers, losses, first values; names are PyTorch's.

    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))
    loss = nn.functional.cross_entropy(model(x), y)

First values are drawn from this thread's generator in the order of the layers, each layer's weight
before its bias, as the engine's own layers draw them: a seed fixes a network, there and here alike.
"""
from . import functional, init, utils
from .activation import (CELU, ELU, GELU, GLU, SELU, CosineSimilarity, Hardshrink, Hardsigmoid,
                         Hardswish, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, Mish,
                         PairwiseDistance, PReLU, ReLU, ReLU6, Sigmoid, SiLU, Softmax, Softmax2d,
                         Softmin, Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold)
from .attention import (MultiheadAttention, Transformer, TransformerDecoder, TransformerDecoderLayer,
                        TransformerEncoder, TransformerEncoderLayer)
from .containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .conv import (AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d,
                   AdaptiveMaxPool2d, AdaptiveMaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d, Conv1d, Conv2d, Conv3d,
                   ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, MaxPool1d, MaxPool2d,
                   MaxPool3d)
from .layers import (AlphaDropout, Bilinear, Dropout, Dropout1d, Dropout2d, Dropout3d, Embedding, Flatten,
                     Fold, Identity, Linear, OpModule, Unflatten, Unfold)
from .loss import (BCELoss, BCEWithLogitsLoss, CosineEmbeddingLoss, CrossEntropyLoss,
                   GaussianNLLLoss, HingeEmbeddingLoss, HuberLoss, KLDivLoss, L1Loss,
                   MarginRankingLoss, MSELoss, MultiLabelSoftMarginLoss, MultiMarginLoss, NLLLoss, PoissonNLLLoss,
                   SmoothL1Loss, SoftMarginLoss, TripletMarginLoss)
from .module import Module
from .normalization import (BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d,
                            InstanceNorm2d, InstanceNorm3d, LayerNorm, LocalResponseNorm, RMSNorm)
from .padding import *
from .parameter import Parameter
from .recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
