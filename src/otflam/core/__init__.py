"""What every stage uses and what knows nothing of latent actions."""

from otflam.core.surface import surface

__getattr__, __dir__, __all__ = surface(__name__, __file__)
