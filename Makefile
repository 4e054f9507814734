# A thin front: each target installs what it needs, then calls CMake, CTest or a script.
JOBS ?= $(shell nproc)
BUILD = build/release

.PHONY: all deps demo test check bench bench-gate bench-links bench-serve bench-peers bench-estimates bench-shaped bench-memory bench-accuracy-time bench-tables clients torch tokenizers strategies precision soak soak-processes soak-serve hunt chaos mutate lint fuzz gpu-check dist install-test man clean

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

# Every kind of test once, in a few minutes.
test: deps
	@scripts/deps test
	@scripts/check --again test

# All there is, in stages; STAGES='tsan debian13' chooses, `scripts/check --list` names them. What has passed for the
# same tree is not run again; BACKGROUND=1 returns at once, and `scripts/check --status` shows how far it is.
check: deps
	@scripts/deps test
	@scripts/check $(if $(BACKGROUND),--background) $(STAGES)

bench: deps
	@scripts/deps bench
	@OLDER="$(OLDER)" scripts/run-bench

# Training beside that of the last release, or of OLDER, a commit or a program: a model that is below 0.9 of it is an error.
# ROUNDS and MODELS choose.
bench-gate: $(BUILD)/weft
	@older=$$(scripts/older $(OLDER)) && /usr/bin/python3 bench/older.py $(BUILD)/weft "$$older" $(or $(ROUNDS),5) $(MODELS)

# A client that nobody here wrote, from PyPI, against the server.
clients: $(BUILD)/weft
	@test -x build/clients/bin/python || { /usr/bin/python3 -m venv build/clients && build/clients/bin/pip install -q 'tritonclient[http]'; }
	@build/clients/bin/python tests/serve/clients.py $(BUILD)/weft

# Whole models and random networks against PyTorch from PyPI, a download of some gigabytes: losses, gradients, steps of
# optimizers. SEED and COUNT choose the networks.
torch: $(BUILD)/weft
	@test -x build/torch/bin/python || { /usr/bin/python3 -m venv build/torch && build/torch/bin/pip install -q torch numpy tensorboard trackio; }
	@build/torch/bin/python tests/models/torch_models.py $(BUILD)/weft
	@build/torch/bin/python tests/models/torch_generate.py $(BUILD)/weft
	@build/torch/bin/python tests/data/column_embeddings.py $(BUILD)/weft against_torch
	@build/torch/bin/python tests/models/torch_defaults.py $(BUILD)/weft --all
	@build/torch/bin/python -c 'import torchvision' 2>/dev/null || build/torch/bin/pip install -q torchvision
	@build/torch/bin/python tests/models/torch_images.py $(BUILD)/weft
	@build/torch/bin/python tests/models/torch_networks.py $(BUILD)/weft --seed $(or $(SEED),1) --count $(or $(COUNT),100) --extreme $(or $(COUNT),100)

# How texts are cut into pieces, against the package tokenizers from PyPI: patterns of published models, and others that are
# drawn. SEED and COUNT choose.
tokenizers: $(BUILD)/weft
	@scripts/deps test
	@cmake --preset release >/dev/null && cmake --build $(BUILD) --target test_tokenizers >/dev/null
	@test -x build/tokenizers/bin/python || { /usr/bin/python3 -m venv build/tokenizers && build/tokenizers/bin/pip install -q tokenizers; }
	@RUST_BACKTRACE=0 build/tokenizers/bin/python tests/golden/pieces.py build/pieces.jsonl $(or $(SEED),1) $(or $(COUNT),4000) 2>/dev/null
	@WEFT_PIECES=build/pieces.jsonl $(BUILD)/tests/test_tokenizers

# Models beside PyTorch from PyPI, in f32 and bf16: speed and memory of training, tokens a second, and the accuracy of twin-lstm
# on pairs of passages; the share of a core's peak; a lone row beside ONNX Runtime. ROUNDS and MODELS choose.
bench-peers: $(BUILD)/weft
	@test -x build/torch/bin/python || { /usr/bin/python3 -m venv build/torch && build/torch/bin/pip install -q torch numpy onnxruntime onnx; }
	@build/torch/bin/python bench/peers.py $(BUILD)/weft $(or $(ROUNDS),5) $(MODELS)
	@build/torch/bin/python bench/generating.py $(BUILD)/weft $(or $(ROUNDS),5)
	@build/torch/bin/python bench/pairs.py $(BUILD)/weft

# Estimated steps (weft measure, weft plan --cluster) beside measured ones: about ten minutes. STEPS and MODELS choose.
bench-estimates: $(BUILD)/weft
	@/usr/bin/python3 bench/estimates.py $(BUILD)/weft build/estimates $(if $(MODELS),measure $(MODELS) table)

# Estimated steps of two to eight machines beside measured ones, over lines that are shaped as the cluster's file says (root): about twenty
# minutes. FOLDER keeps rates and rows; PAIRS chooses, and TURN=SECONDS ends a pair after so many, which goes on when it is called again.
bench-shaped: $(BUILD)/weft
	@/usr/bin/python3 bench/shaped_estimates.py $(BUILD)/weft $(or $(FOLDER),build/shaped) $(PAIRS)

# The strategy that weft plan --target chooses beside all others run to the target, in virtual time: under five minutes. PAIRS chooses.
bench-accuracy-time: $(BUILD)/weft
	@/usr/bin/python3 bench/time_to_accuracy.py $(BUILD)/weft $(PAIRS)

# Predicted memory (weft plan) beside the peak of runs, with evaluation and checkpoint: about ten minutes. MODELS chooses.
bench-memory: $(BUILD)/weft
	@/usr/bin/python3 bench/memory.py $(BUILD)/weft $(MODELS)

# Serving: speed, latency of a lone request, the chosen wait against fixed ones, a day, ONNX Runtime, ten minutes. PARTS and
# MODELS choose; SECONDS and ROUNDS say how long (with five of each, hours for wait and day), MINUTES of the long run.
bench-serve: $(BUILD)/weft
	@SECONDS="$(SECONDS)" ROUNDS="$(ROUNDS)" MODELS="$(MODELS)" MINUTES="$(MINUTES)" \
		/usr/bin/python3 bench/serving.py $(BUILD)/weft $(BUILD)/bench/weft_bare_http $(PARTS)

# What each strategy needs to learn and what it sends; about half an hour. EPOCHS and NAMES choose.
strategies: $(BUILD)/weft
	@/usr/bin/python3 bench/strategies.py $(BUILD)/weft $(or $(EPOCHS),5) $(NAMES)

# What one command learns of a table, beside scikit-learn; some ten minutes. NAMES choose.
bench-tables: $(BUILD)/weft
	@test -x build/torch/bin/python || /usr/bin/python3 -m venv build/torch
	@build/torch/bin/python -c 'import sklearn' 2>/dev/null || build/torch/bin/pip install -q scikit-learn
	@build/torch/bin/python bench/tables.py $(BUILD)/weft $(NAMES)

# What bf16 costs in accuracy, over three seeds; about half an hour. NAMES choose models.
precision: $(BUILD)/weft
	@/usr/bin/python3 bench/precision.py $(BUILD)/weft $(NAMES)

# Learners with a slow line between them, synchronous and compressed: about ten minutes. EPOCHS and NAMES choose, MBIT and
# MS say what the line is like.
bench-links: $(BUILD)/weft
	@scripts/deps test
	@MBIT="$(MBIT)" MS="$(MS)" bench/links $(BUILD)/weft $(or $(EPOCHS),2) $(NAMES)

lint: deps
	@scripts/check --again lint tidy

# Breaks running jobs at random: ranks, supervisors, lines between hosts; SOAK_KILLS sets how often.
soak: $(BUILD)/weft
	@scripts/deps test
	@scripts/soak $(or $(SOAK_KILLS),200)

# The same for jobs whose learners and servers are processes; FAULTS sets how many.
soak-processes: $(BUILD)/weft
	@scripts/deps test
	@scripts/soak-processes $(or $(FAULTS),100) $(or $(SEED),1)

# Servers: their processes are killed and models loaded anew under load, then a long run at 80 % of what they can do. KILLS,
# MINUTES and RELOADS say how much, PARTS which of "kills reloads steady".
soak-serve: $(BUILD)/weft
	@PARTS="$(PARTS)" scripts/soak-serve $(BUILD)/weft $(or $(KILLS),100) $(or $(MINUTES),10) $(or $(RELOADS),1000)

# Random networks, data and ways to run; MINUTES and SEED choose. Failures are kept in build/hunt.
hunt: deps
	@scripts/check --again hunt

# Ten thousand simulated runs of learners and servers, and as many of peers, with random faults; RUNS=N, or SEED=S for
# one of each told in words.
chaos: $(BUILD)/weft
	@WEFT_CHAOS=$(or $(RUNS),10000) WEFT_CHAOS_SEED=$(SEED) $(BUILD)/tests/test_ps_chaos
	@WEFT_CHAOS=$(or $(RUNS),10000) WEFT_CHAOS_SEED=$(SEED) $(BUILD)/tests/test_gossip_chaos

# One-line faults in a copy of the tree; FAULTS and SEED set how many and which.
mutate: deps
	@scripts/deps faults
	@scripts/mutate $(or $(FAULTS),200) $(SEED)

# Half a minute for each parser; FUZZ_SECONDS sets another time.
fuzz: deps
	@scripts/check --again fuzz

# GPUs, or OpenCL's first device, or cpu: the operator suite, losses, exchanges, memory, samples/s beside PyTorch, in one table.
# PYTHON is one that may have PyTorch; SHORT=1 takes the smallest runs alone.
gpu-check: $(BUILD)/weft
	@scripts/gpu-check $(if $(SHORT),--short) --python $(or $(PYTHON),python3) $(BUILD)/weft

# An archive that runs on any Linux for x86-64 with glibc 2.36, without a package.
dist: $(BUILD)/weft
	@scripts/deps dist
	@scripts/dist $(BUILD)

install-test: $(BUILD)/weft
	@tests/api/install/run $(BUILD)

man: $(BUILD)/weft
	@scripts/man $(BUILD)/weft build/man

clean:
	rm -rf build
