"""What a solver decided at an epoch: places in DECISIONS."""

DECISIONS = (
    "",  # nothing decided yet
    "accepted",
    "accepted, longer steps",
    "rejected, shorter steps",
    "rejected, not finite",
)
ACCEPTED, LONGER, REJECTED, BROKEN = 1, 2, 3, 4
