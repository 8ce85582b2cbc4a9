"""Settings of all tests."""

collect_ignore = ["pairs"]
"""Sample pairs for the tests of the engine: the harness's plugin would collect and measure them."""
