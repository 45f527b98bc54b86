"""The xla engine: a Program in plain JAX, for any device XLA has."""
