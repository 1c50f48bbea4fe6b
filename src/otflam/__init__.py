"""Latent actions from video when nobody says which moving thing is the agent."""
