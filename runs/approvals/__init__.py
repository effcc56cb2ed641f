"""Approvals: a recorded yes that is bound to one artifact, given by people and used once."""
