"""What this machine is, what is missing on it, and what every worker on it is started with. No torch."""
