# A thin front: each target installs what it needs, then calls CMake, CTest or a script.
JOBS ?= $(shell nproc)
BUILD = build/release

.PHONY: all deps demo test test-clang test-asan test-tsan test-valgrind bench bench-links strategies soak soak-processes hunt chaos failures mutate lint fuzz install-test man clean

all: $(BUILD)/weft

deps:
	@scripts/deps build

$(BUILD)/build.ninja: | deps
	@cmake --preset release >/dev/null

$(BUILD)/weft: $(BUILD)/build.ninja FORCE
	@echo "Building $@"
	@cmake --build $(BUILD) -j $(JOBS) >$(BUILD)/log 2>&1 || { cat $(BUILD)/log; exit 1; }

FORCE:

demo: $(BUILD)/weft
	@echo "Training lenet, a convolutional network, on drawn digits:"
	@$(BUILD)/weft train

# One suite under several builds: make test, make test-clang, make test-asan, ...
test: deps
	@scripts/deps test
	@scripts/run-tests release

test-%: deps
	@scripts/deps test
	@scripts/run-tests $*

bench: deps
	@scripts/deps bench
	@scripts/run-bench

# What each strategy needs to learn and what it sends; about half an hour. EPOCHS and NAMES choose.
strategies: $(BUILD)/weft
	@/usr/bin/python3 bench/strategies.py $(BUILD)/weft $(or $(EPOCHS),5) $(NAMES)

# Learners with a slow line between them, synchronous and compressed: about ten minutes. EPOCHS and NAMES choose, MBIT and
# MS say what the line is like.
bench-links: $(BUILD)/weft
	@scripts/deps test
	@MBIT="$(MBIT)" MS="$(MS)" bench/links $(BUILD)/weft $(or $(EPOCHS),2) $(NAMES)

lint: deps
	@scripts/deps lint
	@scripts/lint

# Breaks running jobs at random: ranks, supervisors, lines between hosts; SOAK_KILLS sets how often.
soak: $(BUILD)/weft
	@scripts/deps test
	@scripts/soak $(or $(SOAK_KILLS),200)

# The same for jobs whose learners and servers are processes; FAULTS sets how many.
soak-processes: $(BUILD)/weft
	@scripts/deps test
	@scripts/soak-processes $(or $(FAULTS),100) $(or $(SEED),1)

# Random networks, data and ways to run; MINUTES and SEED choose. Failures are kept in build/hunt.
hunt: $(BUILD)/weft
	@scripts/deps test
	@scripts/run-hunt $(or $(MINUTES),5) $(SEED)

# Ten thousand simulated runs of learners and servers, and as many of peers, with random faults; RUNS=N, or SEED=S for
# one of each told in words.
chaos: $(BUILD)/weft
	@WEFT_CHAOS=$(or $(RUNS),10000) WEFT_CHAOS_SEED=$(SEED) $(BUILD)/tests/test_chaos
	@WEFT_CHAOS=$(or $(RUNS),10000) WEFT_CHAOS_SEED=$(SEED) $(BUILD)/tests/test_gossip_chaos

# Lets each call fail that the command makes, one at a time: about ten minutes.
failures: deps
	@scripts/deps test
	@WEFT_STRIDE=1 scripts/run-tests release -V -R '^failures$$'

# One-line faults in a copy of the tree; FAULTS and SEED set how many and which.
mutate: deps
	@scripts/deps faults
	@scripts/mutate $(or $(FAULTS),200) $(SEED)

# A minute for each parser; FUZZ_SECONDS sets another time.
fuzz: deps
	@scripts/deps lint
	@scripts/run-fuzz $(or $(FUZZ_SECONDS),60)

install-test: $(BUILD)/weft
	@tests/install/run $(BUILD)

man: $(BUILD)/weft
	@scripts/man $(BUILD)/weft build/man

clean:
	rm -rf build
