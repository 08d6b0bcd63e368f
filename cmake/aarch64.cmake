# Cross-compiles for 64-bit Arm and runs the tests under emulation, on a machine of any kind: `make neon`, or
#
#   apt install g++-aarch64-linux-gnu qemu-user googletest
#   cmake --preset neon && cmake --build --preset neon && ctest --test-dir build-neon
#
# Built are the modules that need no outside library, every kernel among them, with all their tests. GoogleTest is
# built for the target from Debian's source package.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# The loop vectoriser of gcc 12 for Arm crashes on a test; kernels name their vectors and do not need it.
set(CMAKE_CXX_FLAGS_INIT -fno-tree-loop-vectorize)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-cpu;max;-L;/usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(HOLDFAST_BUILD_MODULES base simd tensor paging ops codec span attention cache kv CACHE STRING "")
set(HOLDFAST_BUILD_CLI OFF CACHE BOOL "")
set(HOLDFAST_BUILD_EXAMPLES OFF CACHE BOOL "")
set(HOLDFAST_GTEST_SOURCE /usr/src/googletest CACHE PATH "")
