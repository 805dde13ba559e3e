"""The run: the loop of `minimize`, its stopping rule, measurements and checkpoints."""
