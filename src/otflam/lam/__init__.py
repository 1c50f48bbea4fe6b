"""Latent action models: codes or frames become latent actions. Importing this declares the methods, without torch."""

from importlib import import_module

from otflam.lam.method import BUILT_IN

for _family in BUILT_IN:
    import_module(f"otflam.lam.{_family}")
