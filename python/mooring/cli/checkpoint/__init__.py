"""Commands that read or change a checkpoint."""
