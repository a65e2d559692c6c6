"""From files to rows in the lake: found, read within bounds, put in once, with what follows from new rows."""
