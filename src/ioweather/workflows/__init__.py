"""What the surfaces call: ingest files, analyse a lake, publish results."""
