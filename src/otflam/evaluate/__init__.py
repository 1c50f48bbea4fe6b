"""Stage 7: reads what was trained, writes one record for each result."""
