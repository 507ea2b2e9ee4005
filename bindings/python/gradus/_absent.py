"""Names of PyTorch's that gradus has not, and what stands for each here."""
_INSTEAD = {
    "device": 'a device is a text: x.to("cuda:1"); gradus.devices() lists them',
    "cuda": 'a device is a text: x.to("cuda:1"); gradus.devices() lists them, gradus.synchronize() waits',
    "backends": "a device's settings are its configuration: see configs/devices.md",
    "Generator": "each thread has one generator: gradus.manual_seed, get_rng_state, set_rng_state",
    "set_printoptions": "numpy's options hold for x.numpy()",
    "set_default_dtype": "each function that makes a tensor takes dtype=",
    "get_default_dtype": "it is gradus.float32",
    "Size": "a shape is a tuple",
    "strided": "every tensor is strided",
    "autocast": "x.to(gradus.bfloat16) casts",
    "jit": "gradus.compile records the kernel calls of a function",
    "utils": "gradus.data reads and batches data, gradus.checkpoint is a function",
    "float": "gradus.float32", "double": "gradus.float64", "half": "gradus.float16",
    "int": "gradus.int32", "long": "gradus.int64", "cfloat": "gradus.complex64",
    "cdouble": "gradus.complex128",
    "f32": "gradus.float32", "f64": "gradus.float64", "f16": "gradus.float16", "bf16": "gradus.bfloat16",
    "c64": "gradus.complex64", "c128": "gradus.complex128", "i32": "gradus.int32",
    "i64": "gradus.int64", "u8": "gradus.uint8",
    "int8": "whole numbers are uint8, int32 or int64", "int16": "whole numbers are uint8, int32 or int64",
    "einsum_classed": "it is of C++ alone; gradus.einsum gives the tensor dense where it can",
}


def instead(name):
    found = _INSTEAD.get(name)
    if found is None and name.startswith("optim."):
        found = ("the rules are SGD, Adam, AdamW, NAdam, RAdam, Adamax, RMSprop, Rprop, Adagrad, Adadelta and "
                 "LBFGS")
    return f"; {found}" if found else ""
