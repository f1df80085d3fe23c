"""Kernels for interpreters that cannot speak the control protocol themselves: a driver beside each."""
