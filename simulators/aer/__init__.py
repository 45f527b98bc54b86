"""Qiskit Aer as an engine: exact or sampled, ideal or with a machine's noise."""
