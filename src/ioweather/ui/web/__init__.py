"""The dashboard and the HTTP API: a thin skin over workflows."""
