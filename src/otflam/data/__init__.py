"""Stage 2: episodes on disk. Importing this declares all formats, without loading what reads them."""

from otflam.core.surface import surface
from otflam.data.formats.format import load_formats

__getattr__, __dir__, __all__ = surface(__name__, __file__)

load_formats()
