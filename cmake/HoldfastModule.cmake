# How a module, its per-ISA kernels and its tests are declared.
#
#   holdfast_module(codec
#     SOURCES  codec.cc int8.cc             # compiled for the baseline instruction set
#     KERNELS  kernels/int8_kernels.cc      # compiled once per instruction set
#     TILE_KERNELS kernels/a.cc             # compiled once, where this processor family has int8 tiles
#     DEPENDS  base simd                    # modules of lower layers
#     LINKS    PkgConfig::PCRE2             # outside libraries
#     TESTS    codec_test.cc                # one executable codec_test, found by ctest
#     TEST_KERNELS codec_test_kernels.cc)   # as KERNELS, linked into the test and never installed
#
# Every module is an OBJECT library, so that one installable `holdfast` library is made of them all, plus
# a STATIC one (hf_<module>) that tests link with what they need and no more.

set(HOLDFAST_MODULES "" CACHE INTERNAL "")
set(HOLDFAST_LINKS "" CACHE INTERNAL "")

set(HOLDFAST_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND HOLDFAST_WARNINGS -Wno-restrict)  # false alarms on "literal" + std::string, gcc bug 105651
endif()

# Instruction sets of this target: <name> <flags>. The name is both the C++ namespace and the macro suffix.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(HOLDFAST_ISAS scalar avx2 avx512)
  set(HOLDFAST_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
  set(HOLDFAST_ISA_FLAGS_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl
                                -mavx512cd -mavx512vnni -mprefer-vector-width=512)
  set(HOLDFAST_TILE_ISA amx)  # its kernels use the vectors of avx512
  set(HOLDFAST_ISA_FLAGS_amx ${HOLDFAST_ISA_FLAGS_avx512} -mamx-tile -mamx-int8)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(HOLDFAST_ISAS scalar neon)
  set(HOLDFAST_ISA_FLAGS_neon -march=armv8.2-a+dotprod+fp16)
else()
  set(HOLDFAST_ISAS scalar)
endif()
set(HOLDFAST_ISA_FLAGS_scalar "")

# With a sanitizer's checks in every loop, the optimiser takes minutes for a file at -O2 and more, and seconds at -O1.
set(HOLDFAST_SANITIZED_OPTIMISATION -O1)  # a module's CMakeLists.txt may set another
if(HOLDFAST_SANITIZE)
  set(HOLDFAST_KERNEL_OPTIMISATION ${HOLDFAST_SANITIZED_OPTIMISATION})
else()
  set(HOLDFAST_KERNEL_OPTIMISATION -O3)
endif()

function(holdfast_compile_settings target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${target} PRIVATE ${HOLDFAST_WARNINGS} $<$<BOOL:${HOLDFAST_WERROR}>:-Werror>
    -fno-math-errno -ffp-contract=off)
  # What a kernel fuses it fuses by name (Fma); elsewhere contraction would make rounding depend on inlining.
  if(HOLDFAST_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${HOLDFAST_SANITIZE} -fno-omit-frame-pointer
                           ${HOLDFAST_SANITIZED_OPTIMISATION} -g1)
    target_link_options(${target} PUBLIC -fsanitize=${HOLDFAST_SANITIZE})
  endif()
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# One object library <prefix>_<isa> for each of the instruction sets `isas` of these files; appends the targets to the
# list `targets`.
function(holdfast_kernel_objects prefix isas targets)
  set(list ${${targets}})
  foreach(isa ${isas})
    string(TOUPPER ${isa} upper)
    set(target ${prefix}_${isa})
    add_library(${target} OBJECT ${ARGN})
    holdfast_compile_settings(${target})
    target_compile_options(${target} PRIVATE ${HOLDFAST_ISA_FLAGS_${isa}} ${HOLDFAST_KERNEL_OPTIMISATION})
    target_compile_definitions(${target} PRIVATE HOLDFAST_ISA_NS=${isa} HOLDFAST_ISA_${upper}=1)
    list(APPEND list ${target})
  endforeach()
  set(${targets} ${list} PARENT_SCOPE)
endfunction()

function(holdfast_module name)
  cmake_parse_arguments(M "" "" "SOURCES;KERNELS;TILE_KERNELS;DEPENDS;LINKS;TESTS;TEST_DEPENDS;TEST_KERNELS" ${ARGN})
  set(object_targets "")
  if(M_SOURCES)
    add_library(hf_${name}_obj OBJECT ${M_SOURCES})
    holdfast_compile_settings(hf_${name}_obj)
    target_link_libraries(hf_${name}_obj PRIVATE ${M_LINKS})
    list(APPEND object_targets hf_${name}_obj)
  endif()
  if(M_KERNELS)
    holdfast_kernel_objects(hf_${name} "${HOLDFAST_ISAS}" object_targets ${M_KERNELS})
  endif()
  if(M_TILE_KERNELS)
    holdfast_kernel_objects(hf_${name} "${HOLDFAST_TILE_ISA}" object_targets ${M_TILE_KERNELS})
  endif()
  set(objects "")
  foreach(t ${object_targets})
    list(APPEND objects $<TARGET_OBJECTS:${t}>)
  endforeach()
  if(objects)
    add_library(hf_${name} STATIC ${objects})
    set_target_properties(hf_${name} PROPERTIES LINKER_LANGUAGE CXX)
  else()
    add_library(hf_${name} INTERFACE)
  endif()
  set(scope INTERFACE)
  target_include_directories(hf_${name} ${scope} ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(hf_${name} ${scope} cxx_std_20)
  foreach(d ${M_DEPENDS})
    target_link_libraries(hf_${name} ${scope} hf_${d})
  endforeach()
  target_link_libraries(hf_${name} ${scope} ${M_LINKS})
  if(HOLDFAST_SANITIZE)
    target_link_options(hf_${name} ${scope} -fsanitize=${HOLDFAST_SANITIZE})
  endif()
  set(HOLDFAST_MODULES "${HOLDFAST_MODULES};${object_targets}" CACHE INTERNAL "")
  set(HOLDFAST_LINKS "${HOLDFAST_LINKS};${M_LINKS}" CACHE INTERNAL "")
  if(M_TESTS AND HOLDFAST_BUILD_TESTS)
    set(test_objects "")
    if(M_TEST_KERNELS)
      holdfast_kernel_objects(hf_${name}_test "${HOLDFAST_ISAS}" test_objects ${M_TEST_KERNELS})
      list(TRANSFORM test_objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
    endif()
    holdfast_test(${name}_test SOURCES ${M_TESTS} ${test_objects} DEPENDS ${name} ${M_TEST_DEPENDS})
  endif()
endfunction()

# holdfast_test(name SOURCES a_test.cc ... DEPENDS modules... [ARGS ...]): a GoogleTest executable.
function(holdfast_test name)
  cmake_parse_arguments(T "" "" "SOURCES;DEPENDS;LINKS;ARGS;LABELS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  holdfast_compile_settings(${name})
  target_compile_definitions(${name} PRIVATE HOLDFAST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    target_compile_definitions(${name} PRIVATE HOLDFAST_EMULATED)  # src/simd/testing_effort.h
  endif()
  foreach(d ${T_DEPENDS})
    target_link_libraries(${name} PRIVATE hf_${d})
  endforeach()
  target_link_libraries(${name} PRIVATE ${T_LINKS} GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name} ${T_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}")
endfunction()

# The one library that is installed, made of every module's objects.
function(holdfast_library)
  set(objects "")
  foreach(t ${HOLDFAST_MODULES})
    list(APPEND objects $<TARGET_OBJECTS:${t}>)
  endforeach()
  if(NOT objects)
    return()
  endif()
  add_library(holdfast ${objects})
  add_library(holdfast::holdfast ALIAS holdfast)
  set_target_properties(holdfast PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(holdfast PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_compile_features(holdfast PUBLIC cxx_std_20)
  set(links ${HOLDFAST_LINKS})
  list(REMOVE_DUPLICATES links)
  # Header-only libraries are built in; who uses the installed package need not have them.
  list(FILTER links EXCLUDE REGEX "^(nlohmann_json|Boost::headers)")
  target_link_libraries(holdfast PRIVATE ${links})
  if(HOLDFAST_SANITIZE)
    target_link_options(holdfast PUBLIC -fsanitize=${HOLDFAST_SANITIZE})
  endif()
  holdfast_install()
endfunction()

# `cmake --install`: the library, the public headers, and a package for find_package(holdfast).
function(holdfast_install)
  include(GNUInstallDirs)
  include(CMakePackageConfigHelpers)
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)
  install(TARGETS holdfast EXPORT holdfastTargets)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/holdfast DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT holdfastTargets NAMESPACE holdfast:: DESTINATION ${package_dir})
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/holdfastConfig.cmake.in
    ${PROJECT_BINARY_DIR}/holdfastConfig.cmake INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/holdfastConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/holdfastConfig.cmake ${PROJECT_BINARY_DIR}/holdfastConfigVersion.cmake
    DESTINATION ${package_dir})
endfunction()
