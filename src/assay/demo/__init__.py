"""Demo data: support tickets with gold, generated from a seed."""
