"""Stage 5: latent action models."""
