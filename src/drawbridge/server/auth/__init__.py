"""Authentication and authorization: who may connect, what they may do, and the audit log."""
