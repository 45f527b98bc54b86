"""The embedded default: an exact simulator for whole batches, with adjoint derivatives."""
