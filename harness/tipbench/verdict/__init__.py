"""From seconds to verdicts: pure functions of numbers, without files, clocks or torch."""
