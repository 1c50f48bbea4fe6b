"""Stage 7: reads what was trained, writes one record for each result."""

from otflam.core.surface import surface

__getattr__, __dir__, __all__ = surface(__name__, __file__)
