"""The fresh process that runs one job, from its first line to its exit."""
