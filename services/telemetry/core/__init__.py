"""Pure rules of telemetry: tables, segments, levels, manifests, curves."""
