"""Samples that a monitoring system labelled: Prometheus, telegraf, collectd, LDMS. A mapping says what each is."""
