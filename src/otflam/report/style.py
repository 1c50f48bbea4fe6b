"""Colours and sizes of everything we draw."""

INK = (38, 38, 42)
PAPER = (250, 250, 248)
MUTED = (120, 120, 126)
MARGIN = 10
"""Pixels between parts of a picture."""
