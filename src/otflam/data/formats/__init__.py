"""Formats of others, in and out: a folder or a file for each, which declares itself (`format.py`)."""
