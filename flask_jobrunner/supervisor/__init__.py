"""`flask jobs work`: hands out what waits, and is the parent of the processes that run it.

`loop` turns; `dispatch` finds the next job within `slots`, `children` starts its process and
watches it, `record` writes down how it ended. `wake` says when to look, `drain` how to stop.
Everything that talks to the database does so at a desk (`desk`), so the loop never waits for it.
"""
