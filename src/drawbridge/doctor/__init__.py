"""``drawbridge doctor``: tests each connection between agents, editors and servers by using it, and names what is wrong."""
