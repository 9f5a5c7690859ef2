"""``python -m drawbridge``: the same as the ``drawbridge`` command."""

from drawbridge.cli import main

raise SystemExit(main())
