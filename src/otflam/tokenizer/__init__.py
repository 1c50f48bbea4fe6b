"""Stage 4: motion becomes codes."""

from otflam.core.surface import surface

__getattr__, __dir__, __all__ = surface(__name__, __file__)
