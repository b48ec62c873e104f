"""Every problem type and its task."""
