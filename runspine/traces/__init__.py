"""A run as a trace: where its time went, for whoever looks at traces of OpenTelemetry."""
