"""How a state becomes the next: compiled epochs, or full passes with small algebra on the host."""
