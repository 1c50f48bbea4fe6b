"""Stage 6: policies that imitate latent actions, and decoders that ground them with a few labels."""

from otflam.core.surface import surface

__getattr__, __dir__, __all__ = surface(__name__, __file__)
