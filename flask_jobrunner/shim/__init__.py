"""The parent of a pushed child: starts it, watches it, tells how it ended.

Run by path (`python -I -S …/shim SETTINGS -- COMMAND…`), so that it costs tens of milliseconds
and about ten megabytes. Standard library only. `__main__` alone imports its siblings; they are
given each other as arguments.
"""
