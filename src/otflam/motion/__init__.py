"""Stage 3: what changed between frames, as pure functions without parameters."""
