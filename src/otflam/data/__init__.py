"""Stage 2: episodes on disk."""
