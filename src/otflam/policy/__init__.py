"""Stage 6: policies that imitate latent actions, and decoders that ground them with a few labels."""
