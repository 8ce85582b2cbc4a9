"""A person's own job, in the processes that run it: how it is found, what may be given, and the pairs that measure tips
on it. Nothing of a person's is imported anywhere else."""
