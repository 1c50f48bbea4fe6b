"""Stage 4: motion becomes codes."""
