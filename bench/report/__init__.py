"""The pages of the documentation that have figures, made from samples and from nothing else."""
