"""GPFS (Storage Scale) as its own tools count it: mmpmon and mmperfmon."""
