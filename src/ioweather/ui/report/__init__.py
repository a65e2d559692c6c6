"""The report: everything a lake can tell, as one file that opens offline."""
