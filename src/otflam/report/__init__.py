"""Stage 8: shows results, never computes one."""

from otflam.core.surface import surface

__getattr__, __dir__, __all__ = surface(__name__, __file__)
