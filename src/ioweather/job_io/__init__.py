"""One job, and runs of one program before and after a change."""
