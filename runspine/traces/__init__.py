"""The facts of a run as a trace of OpenTelemetry: spans, and their export over OTLP."""
