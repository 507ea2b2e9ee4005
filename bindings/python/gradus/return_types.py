"""The types of what ops with several results give: tuples whose places have names, as PyTorch's."""
from ._gradus import _return_types

globals().update(_return_types)
__all__ = list(_return_types)
