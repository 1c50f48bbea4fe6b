"""Benchmarks, in files by the stage that they measure; run.py lists them all and has those of worlds and data."""
