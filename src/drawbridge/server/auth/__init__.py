"""Authentication and authorisation: who may connect, what they may do, and the audit log of it."""
