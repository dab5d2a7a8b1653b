"""The guards of the writes, each by its name; a mutant is the system without one of them."""

from __future__ import annotations

ALL = frozenset(
    {
        # What matters alone.
        "reconcile reads the row",
        "start marker is a compare-and-set",
        "finish checks the status",
        "finish checks the token",
        "each claim has a token of its own",
        "a credential is for one attempt",
        "mark-failed checks the status",
        "mark-failed checks the attempt",
        "sweep checks the status in its write",
        "sweep checks the lease in its write",
        # What matters alone, of the parts that came later.
        "reconcile asks for its own attempt",
        "minting checks the row",
        "a report names its owner",
        "reserving respects a reservation",
        "giving back names the credential",
        # What others do as well.
        "claim checks the status",
        "ends and claims clear the credential",
        "claim checks the deadline",
        "sweep checks the token in its write",
    }
)
