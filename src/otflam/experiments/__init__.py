"""Stage 9: whole stories out of the stages: the demo, the benchmarks, the paper's tables and figures."""

from otflam.core.surface import surface

__getattr__, __dir__, __all__ = surface(__name__, __file__)
