"""Samples that a monitoring system labelled: Prometheus and telegraf. A mapping says what each is."""
