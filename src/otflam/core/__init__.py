"""What every stage uses and what knows nothing of latent actions."""
