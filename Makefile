# Each target is the verb of the same name in tools/dev.py. On a machine without make, run `python3 tools/dev.py test`.
PYTHON ?= python3
VERBS = setup serve demo test nvim thorough slow flaky check format bench vsix lock page programs quiet clean

help:
	@$(PYTHON) tools/dev.py || true

$(VERBS):
	@$(PYTHON) tools/dev.py $@ $(ARGS)

.PHONY: help $(VERBS)
