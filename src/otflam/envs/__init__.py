"""Stage 1: worlds, and the policies that make data in them."""
