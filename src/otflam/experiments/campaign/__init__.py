"""The campaign: commands are killed and files are damaged, and nothing may go wrong unnoticed (docs/reliability.md)."""
