"""HTTP API of a node: its status, failsafe promises and driver logs. It never changes a job."""
