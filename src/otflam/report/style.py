"""Colours and sizes of everything we draw."""

INK = (38, 38, 42)
PAPER = (250, 250, 248)
MUTED = (120, 120, 126)
MARGIN = 10
"""Pixels between parts of a picture."""
SERIES = ("#c2571a", "#2a6f97", "#5a8f3c", "#8a4f9e", "#b8963e", "#4a4a52")
"""Colours of lines, in order of use."""
