"""The benchmark folder that asv is pointed to."""
