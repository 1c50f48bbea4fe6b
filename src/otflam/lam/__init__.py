"""Latent action models: codes or frames become latent actions. Importing this declares all methods, without torch."""

from otflam.core.surface import surface
from otflam.lam.method import load_methods

__getattr__, __dir__, __all__ = surface(__name__, __file__)

load_methods()
