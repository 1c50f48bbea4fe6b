"""Stage 2: episodes on disk."""

from otflam.core.surface import surface

__getattr__, __dir__, __all__ = surface(__name__, __file__)
