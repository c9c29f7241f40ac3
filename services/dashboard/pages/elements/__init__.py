"""Parts that several pages share: frame, notices, charts, tables, refresh."""
