"""The artifacts service: verifies, keeps and prunes what runs leave behind."""
