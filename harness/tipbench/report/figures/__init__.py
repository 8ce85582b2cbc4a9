"""The figures of a run, by matplotlib, which is imported only when one is drawn."""
