"""What crosses a process boundary. Standard library only."""
