"""Samples that Prometheus labelled. A mapping says what each is."""
