# The front door. Every target installs what it needs first (tools/setup.sh) and builds in build*/ only.
BUILD ?= build
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
GENERATE = cmake -S . -G Ninja $(CMAKE_FLAGS)
CTEST = ctest --output-on-failure --no-tests=error

.PHONY: all help setup build demo test test-real test-clients check bench bench-peers bench-serve format format-check lint asan tsan layers fuzz neon install clean

all: build

help:
	@echo "make demo        install, build, fetch the default model, stream an answer, print the cache's figures"
	@echo "make test        install, build, run every test that needs no model download"
	@echo "make test-real   fetch both models and run the tests that need them"
	@echo "make test-clients the server, driven by the stock openai client and Prometheus' own parser"
	@echo "make check       the inner loop: layers and the unit tests, seconds after a small change"
	@echo "make build       build/holdfast"
	@echo "make bench       micro-benchmarks and the program's own bench commands"
	@echo "make bench-peers prefill and decode against llama.cpp, in one run"
	@echo "make bench-serve streaming clients on our server and on OpenVINO GenAI, in one run"
	@echo "make asan tsan   the tests under AddressSanitizer + UBSan, and ThreadSanitizer"
	@echo "make fuzz        each fuzz target for FUZZ_SECONDS (60) seconds"
	@echo "make neon        cross-compile for aarch64 and run the kernel tests under emulation"
	@echo "make format lint layers   clang-format, clang-tidy, the include check"

setup:
	@tools/setup.sh

$(BUILD)/build.ninja: | setup
	$(GENERATE) -B $(BUILD) -DCMAKE_BUILD_TYPE=Release -DHOLDFAST_BUILD_BENCH=ON

build: setup $(BUILD)/build.ninja
	ninja -C $(BUILD) -j $(JOBS)

demo: build
	$(BUILD)/holdfast models fetch smollm2
	$(BUILD)/holdfast generate -m smollm2 -p "Explain in three sentences what a key-value cache is." --chat -n 120 --temp 0

test: build layers
	python3 tools/check_isa_objects.py $(BUILD)
	cd $(BUILD) && $(CTEST) -j $(JOBS) -LE real

test-real: build
	$(BUILD)/holdfast models fetch smollm2
	$(BUILD)/holdfast models fetch gemma3
	cd $(BUILD) && $(CTEST) -L real

# One test of it: CLIENT_TESTS=Chat. An interpreter that has openai and prometheus_client: CLIENT_PYTHON=.
test-clients: build
	tools/test_openai_client.sh $(BUILD)/holdfast $(CLIENT_TESTS)

check: $(BUILD)/build.ninja layers
	ninja -C $(BUILD) -j $(JOBS)
	cd $(BUILD) && $(CTEST) -j $(JOBS) -LE "real|slow"

bench: build
	tools/bench.sh $(BUILD)

# Parts of it: PEERS_MODELS=smollm2 PEERS_CACHES=q8_0, PEERS_PROMPTS= and PEERS_DEPTHS= (with an f16 cache), PEERS_ROUNDS=,
# PEERS_PYTHON= (an interpreter that has llama-cpp-python).
bench-peers: build
	python3 tools/bench_peers.py --holdfast $(BUILD)/holdfast $(if $(PEERS_MODELS),--models $(PEERS_MODELS)) \
	  $(if $(PEERS_CACHES),--caches $(PEERS_CACHES)) $(if $(PEERS_PROMPTS),--prompts $(PEERS_PROMPTS)) \
	  $(if $(PEERS_DEPTHS),--depths $(PEERS_DEPTHS)) $(if $(PEERS_ROUNDS),--rounds $(PEERS_ROUNDS)) \
	  $(if $(PEERS_PYTHON),--peer-python $(PEERS_PYTHON))

# Parts of it: SERVE_CLIENTS=8 SERVE_SHARED=400; SERVE_ROUNDS=, SERVE_PYTHON= (an interpreter that has openvino-genai),
# SERVE_ALSO=llama.cpp=http://127.0.0.1:8081 (a server that runs already).
bench-serve: build
	python3 tools/bench_serve_peers.py --holdfast $(BUILD)/holdfast $(if $(SERVE_CLIENTS),--clients $(SERVE_CLIENTS)) \
	  $(if $(SERVE_SHARED),--shared $(SERVE_SHARED)) $(if $(SERVE_ROUNDS),--rounds $(SERVE_ROUNDS)) \
	  $(if $(SERVE_PYTHON),--peer-python $(SERVE_PYTHON)) $(if $(SERVE_ALSO),--also $(SERVE_ALSO))

format:
	@git ls-files '*.cc' '*.h' | xargs clang-format -i

format-check:
	@git ls-files '*.cc' '*.h' | xargs clang-format --dry-run -Werror

lint: $(BUILD)/build.ninja
	@tools/lint.sh $(BUILD)

layers:
	@python3 tools/check_layers.py

asan: setup
	$(GENERATE) -B build-asan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DHOLDFAST_SANITIZE=address,undefined
	ninja -C build-asan -j $(JOBS)
	cd build-asan && ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $(CTEST) -j $(JOBS) -LE real

tsan: setup
	$(GENERATE) -B build-tsan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DHOLDFAST_SANITIZE=thread
	ninja -C build-tsan -j $(JOBS)
	cd build-tsan && TSAN_OPTIONS=halt_on_error=1 $(CTEST) -j $(JOBS) -LE real

fuzz:
	@tools/setup.sh fuzz
	$(GENERATE) -B build-fuzz -DCMAKE_CXX_COMPILER=clang++ -DHOLDFAST_BUILD_FUZZ=ON -DHOLDFAST_BUILD_TESTS=OFF \
	  -DHOLDFAST_BUILD_CLI=OFF -DHOLDFAST_BUILD_EXAMPLES=OFF -DHOLDFAST_WERROR=OFF \
	  -DHOLDFAST_SANITIZE=address,undefined,fuzzer-no-link
	ninja -C build-fuzz -j $(JOBS)
	tools/fuzz.sh build-fuzz $(or $(FUZZ_SECONDS),60)

neon:
	@tools/setup.sh neon
	cmake -S . -G Ninja -B build-neon -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake
	ninja -C build-neon -j $(JOBS)
	cd build-neon && $(CTEST) -LE real

install: build
	cmake --install $(BUILD)

clean:
	rm -rf build build-asan build-tsan build-fuzz build-neon
