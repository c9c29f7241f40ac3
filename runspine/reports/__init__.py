"""Reports: text and queries in one Markdown file, made into one static HTML file with charts and tables."""
