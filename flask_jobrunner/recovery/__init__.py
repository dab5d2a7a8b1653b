"""Whoever finds a job without its owner: verdict, settling, deadlines, spool, sweep."""
