from ._gradus import *
