"""Stage 3: what changed between frames, as pure functions without parameters."""

from otflam.core.surface import surface

__getattr__, __dir__, __all__ = surface(__name__, __file__)
