// The cube. `cube_test` runs a sample of programs in every cell; --programs=10000 the full suite, --seed=N
// another one,
// --replay='cell=... | n s0.5 ...' the program that a failure printed.
#include <gtest/gtest.h>

#include <charconv>
#include <iostream>

#include "program.h"
#include "runner.h"

namespace holdfast::cube {
namespace {

struct Flags {
  int64_t programs = 400;
  uint64_t seed = 1;
  std::string replay;
};

Flags& TheFlags() {
  static Flags flags;
  return flags;
}

Machine& TheMachine() {
  static Machine machine{
      std::move(ThreadPool::Create(1)).value(), std::move(ThreadPool::Create(2)).value(), {}};
  return machine;
}

// Differs between cells, so that they do not all run the same programs.
uint64_t ProgramSeed(const Cell& cell, int64_t i) {
  uint64_t seed = TheFlags().seed * 1'000'003 + static_cast<uint64_t>(i);
  for (const char c : CellName(cell)) seed = seed * 131 + static_cast<unsigned char>(c);
  return seed;
}

class Cube : public ::testing::TestWithParam<Cell> {};

TEST_P(Cube, RandomProgramsGiveWhatTheOracleGives) {
  const auto cells = static_cast<int64_t>(AllCells().size());
  const int64_t programs = (TheFlags().programs + cells - 1) / cells;
  for (int64_t i = 0; i < programs; ++i) {
    const Program program = RandomProgram(GetParam(), ProgramSeed(GetParam(), i));
    const auto wrong = RunProgram(program, TheMachine());
    if (!wrong) continue;
    const Program small = Shrink(program, TheMachine());
    FAIL() << *wrong
           << "\nmade smaller: " << RunProgram(small, TheMachine()).value_or("passes: not deterministic")
           << "\nreplay: cube_test --replay='" << ToText(small) << "'";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Cube, ::testing::ValuesIn(AllCells()),
                         [](const auto& param) { return CellName(param.param); });

TEST(CubePrograms, AreTextAndBack) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Program program = RandomProgram(AllCells()[seed % AllCells().size()], seed);
    const std::vector<Program> parsed = ParseProgram(ToText(program));
    ASSERT_EQ(parsed.size(), 1u) << ToText(program);
    EXPECT_EQ(ToText(parsed[0]), ToText(program));
  }
  EXPECT_TRUE(ParseProgram("cell=none | n").empty());
  EXPECT_TRUE(ParseProgram("seed=1").empty());
}

int Replay(const std::string& text) {
  const std::vector<Program> program = ParseProgram(text);
  if (program.empty()) {
    std::cerr << "not a program: " << text << "\n";
    return 2;
  }
  const auto wrong = RunProgram(program[0], TheMachine());
  std::cout << wrong.value_or("passes") << "\n";
  return wrong ? 1 : 0;
}

}  // namespace

int Main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto value_of = [&](std::string_view flag) {
      return arg.starts_with(flag) ? arg.substr(flag.size()) : std::string_view();
    };
    if (const auto value = value_of("--programs="); !value.empty()) {
      std::from_chars(value.data(), value.data() + value.size(), TheFlags().programs);
    } else if (const auto seed = value_of("--seed="); !seed.empty()) {
      std::from_chars(seed.data(), seed.data() + seed.size(), TheFlags().seed);
    } else if (const auto replay = value_of("--replay="); !replay.empty()) {
      return Replay(std::string(replay));
    } else {
      std::cerr << "unknown argument " << arg << "\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}

}  // namespace holdfast::cube

int main(int argc, char** argv) {
  return holdfast::cube::Main(argc, argv);
}
