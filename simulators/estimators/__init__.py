"""Estimators of Qiskit as engines: IBM's machines and fake ones, and anyone's own."""
