"""Inputs made to hurt, for all that reads bytes from outside; what must become of each; and where it is tried."""
