"""Stage 8: shows results, never computes one."""
