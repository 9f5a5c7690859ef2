"""``drawbridge doctor``: tests the connections of agents, editors and servers, and reports what is wrong."""
