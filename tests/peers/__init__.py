"""tipbench and its peers on the same cases, in one run: `python -m tests.peers --help`."""
