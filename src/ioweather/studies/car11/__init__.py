"""What jobs and projects do (car11 sections II, III and V)."""
