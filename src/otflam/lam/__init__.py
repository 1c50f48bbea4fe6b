"""Latent action models: codes or frames become latent actions. Importing this declares all methods, without torch."""

from otflam.lam.method import load_methods

load_methods()
