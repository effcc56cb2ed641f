"""A refund agent whose worker is killed in the middle of the refund."""
