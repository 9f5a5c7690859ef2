"""What clients say and are told. Pure."""
