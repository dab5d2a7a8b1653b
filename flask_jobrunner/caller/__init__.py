"""The process that asks: a view or a command that starts, cancels, requeues and looks."""
