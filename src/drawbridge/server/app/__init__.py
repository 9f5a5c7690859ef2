"""What stands behind the door: connected clients, their commands, and the page."""
