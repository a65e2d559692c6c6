"""Files as real tools write them. Except for Darshan logs nothing here is shared with the readers."""
