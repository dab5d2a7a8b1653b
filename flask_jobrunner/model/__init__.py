"""What is true of a job. Standard library only: every other floor may use it."""
