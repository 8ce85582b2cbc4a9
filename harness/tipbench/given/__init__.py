"""A person's own job, inside the processes that run it: importing it, the forms it may have, its survey, and the pairs
that measure tips on it. Only these processes import a person's code."""
