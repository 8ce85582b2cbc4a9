"""The harness's pytest plugin would collect these pairs and measure them."""

collect_ignore = ["pairs.py"]
