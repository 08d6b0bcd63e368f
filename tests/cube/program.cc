#include "program.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace holdfast::cube {
namespace {

using Random = std::mt19937_64;

int64_t Between(Random& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

template <typename T, size_t n>
T Pick(Random& random, const T (&values)[n]) {
  return values[random() % n];
}

// Mostly a few tokens, as decoding does, and now and then a prompt of up to 600.
int64_t RandomTokens(Random& random) {
  switch (Between(random, 0, 9)) {
    case 0:
      return Between(random, 201, 600);
    case 1:
      return Between(random, 41, 200);
    case 2:
    case 3:
    case 4:
      return Between(random, 5, 40);
    default:
      return Between(random, 1, 4);
  }
}

Setup RandomSetup(Random& random, const Cell& cell, uint64_t seed) {
  constexpr int kDims[] = {1, 3, 8, 16, 20, 33, 64, 80};
  Setup setup;
  setup.cell = cell;
  setup.seed = seed;
  if (cell.layout == LayoutId::kWindow) {
    setup.window = random() % 4 == 0 ? Between(random, 200, 600) : Between(random, 1, 80);
    setup.sinks = random() % 2 == 0 ? 0 : Between(random, 1, 40);
  }
  if (cell.protects) {
    const int64_t most = cell.layout == LayoutId::kWindow ? std::min<int64_t>(setup.window - 1, 60) : 60;
    setup.recent = random() % 3 == 0 ? 0 : Between(random, 0, most);
    setup.protected_sinks = setup.recent > 0 && random() % 2 == 0 ? 0 : Between(random, 1, 40);
  }
  setup.rewind = static_cast<int>(random() % 3 == 0 ? 0 : Between(random, 1, 20));
  setup.block = 16 << Between(random, 0, 4);
  setup.context = Between(random, 300, 1500);
  setup.kv_heads = static_cast<int>(Between(random, 1, 3));
  setup.group = static_cast<int>(Between(random, 1, 4));
  setup.k_dim = Pick(random, kDims);
  setup.v_dim = Pick(random, kDims);
  if (cell.shape == Shape::kLatent) setup.v_dim = std::min(setup.v_dim, setup.k_dim);
  if (cell.layout == LayoutId::kFull && random() % 3 == 0)
    setup.sparse_pages = Between(random, kMinSparsePages, 24);
  return setup;
}

Op RandomOp(Random& random, int sequences) {
  const auto any = [&] { return static_cast<int>(Between(random, 0, sequences - 1)); };
  const int64_t dice = Between(random, 0, 99);
  if (dice < 55) {
    Op op{Op::Kind::kStep, {}};
    for (int s = 0; s < sequences; ++s) {
      if (random() % 2 == 0) op.slices.push_back({s, RandomTokens(random)});
    }
    if (op.slices.empty()) op.slices.push_back({any(), RandomTokens(random)});
    if (random() % 2 == 0) std::reverse(op.slices.begin(), op.slices.end());
    return op;
  }
  if (dice < 60) return {Op::Kind::kBad, {{any(), Between(random, 1, 20)}}};
  if (dice < 80)
    return {Op::Kind::kRewind, {{any(), random() % 4 == 0 ? RandomTokens(random) : Between(random, 0, 20)}}};
  if (dice < 90) return {Op::Kind::kFork, {{any(), 0}}};
  if (dice < 95) return {Op::Kind::kDrop, {{any(), 0}}};
  return {Op::Kind::kNew, {}};
}

template <typename T>
bool ReadNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// "s0.17+1.3"
bool ReadOp(std::string_view text, Op& op) {
  constexpr std::string_view kKinds = "nsxrfd";
  if (text.empty() || kKinds.find(text[0]) == std::string_view::npos) return false;
  op.kind = static_cast<Op::Kind>(text[0]);
  text.remove_prefix(1);
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find('+'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const size_t dot = part.find('.');
    Slice slice;
    if (dot == std::string_view::npos || !ReadNumber(part.substr(0, dot), slice.sequence) ||
        !ReadNumber(part.substr(dot + 1), slice.tokens)) {
      return false;
    }
    op.slices.push_back(slice);
  }
  return op.kind == Op::Kind::kNew || !op.slices.empty();
}

RowTransformConfig MakeTransform(const Setup& setup, uint64_t side, int dim) {
  RowTransformConfig transform;
  transform.rotate = Rotates(setup.cell.transform);
  if (!Centres(setup.cell.transform)) return transform;
  uint64_t state = setup.seed * 3 + side;
  transform.center =
      std::make_shared<const std::vector<float>>(RandomValues(state, setup.kv_heads * dim, 1.0f));
  return transform;
}

bool ReadField(std::string_view key, std::string_view value, Setup& setup) {
  if (key == "cell") {
    for (const Cell& cell : AllCells()) {
      if (CellName(cell) != value) continue;
      setup.cell = cell;
      return true;
    }
    return false;
  }
  if (key == "seed") return ReadNumber(value, setup.seed);
  if (key == "W") return ReadNumber(value, setup.window);
  if (key == "S") return ReadNumber(value, setup.sinks);
  if (key == "PS") return ReadNumber(value, setup.protected_sinks);
  if (key == "PR") return ReadNumber(value, setup.recent);
  if (key == "pages") return ReadNumber(value, setup.sparse_pages);
  if (key == "rewind") return ReadNumber(value, setup.rewind);
  if (key == "B") return ReadNumber(value, setup.block);
  if (key == "context") return ReadNumber(value, setup.context);
  if (key == "heads") return ReadNumber(value, setup.kv_heads);
  if (key == "group") return ReadNumber(value, setup.group);
  if (key == "k") return ReadNumber(value, setup.k_dim);
  if (key == "v") return ReadNumber(value, setup.v_dim);
  return false;
}

}  // namespace

uint64_t NextRandom(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::vector<float> RandomValues(uint64_t& state, int64_t count, float scale) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = (static_cast<float>(NextRandom(state) >> 40) / 8388608.0f - 1.0f) * scale;
  }
  return values;
}

CacheConfig MakeConfig(const Setup& setup, StorageId storage) {
  LayerConfig layer = {
      .layout = {.id = setup.cell.layout, .window_tokens = setup.window, .sink_tokens = setup.sinks},
      .k_codec = setup.cell.k_codec,
      .v_codec = setup.cell.v_codec,
      .shape = {.k_dim = setup.k_dim,
                .v_dim = setup.v_dim,
                .v_is_prefix_of_k = setup.cell.shape == Shape::kLatent},
      .kv_heads = setup.kv_heads};
  layer.protection = {setup.protected_sinks, setup.recent, kProtectedCodecs};
  layer.sparse_pages = setup.sparse_pages;
  layer.k_transform = MakeTransform(setup, 1, setup.k_dim);
  if (setup.cell.shape == Shape::kSplit) layer.v_transform = MakeTransform(setup, 2, setup.v_dim);
  return {.layers = {layer},
          .storage = storage,
          .block_tokens = setup.block,
          .max_context = setup.context,
          .rewind_tokens = setup.rewind};
}

Program RandomProgram(const Cell& cell, uint64_t seed) {
  Random random(seed);
  Program program{RandomSetup(random, cell, seed), {{Op::Kind::kNew, {}}}};
  if (random() % 2 == 0) program.ops.push_back({Op::Kind::kNew, {}});
  int sequences = static_cast<int>(program.ops.size());
  for (int64_t left = Between(random, 4, 14); left > 0; --left) {
    Op op = RandomOp(random, sequences);
    const bool adds = op.kind == Op::Kind::kNew || op.kind == Op::Kind::kFork;
    if (adds && sequences == 5) continue;
    if (adds) ++sequences;
    program.ops.push_back(std::move(op));
  }
  return program;
}

std::string ToText(const Program& program) {
  const Setup& s = program.setup;
  std::ostringstream text;
  text << "cell=" << CellName(s.cell) << " seed=" << s.seed << " W=" << s.window << " S=" << s.sinks
       << " PS=" << s.protected_sinks << " PR=" << s.recent << " pages=" << s.sparse_pages
       << " rewind=" << s.rewind << " B=" << s.block << " context=" << s.context << " heads=" << s.kv_heads
       << " group=" << s.group << " k=" << s.k_dim << " v=" << s.v_dim << " |";
  for (const Op& op : program.ops) {
    text << ' ' << static_cast<char>(op.kind);
    for (size_t i = 0; i < op.slices.size(); ++i) {
      text << (i == 0 ? "" : "+") << op.slices[i].sequence << '.' << op.slices[i].tokens;
    }
  }
  return text.str();
}

std::vector<Program> ParseProgram(std::string_view text) {
  Program program;
  std::istringstream words{std::string(text)};
  bool in_ops = false;
  for (std::string word; words >> word;) {
    if (word == "|") {
      in_ops = true;
    } else if (in_ops) {
      Op op;
      if (!ReadOp(word, op)) return {};
      program.ops.push_back(op);
    } else {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) return {};
      if (!ReadField(word.substr(0, equals), word.substr(equals + 1), program.setup)) return {};
    }
  }
  if (!ValidateCacheConfig(MakeConfig(program.setup, program.setup.cell.storage)).ok()) return {};
  return {program};
}

std::vector<Program> Smaller(const Program& program) {
  std::vector<Program> smaller;
  for (size_t i = program.ops.size(); i-- > 0;) {
    smaller.push_back(program);
    smaller.back().ops.erase(smaller.back().ops.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (size_t j = 0; j < program.ops[i].slices.size(); ++j) {
      if (program.ops[i].slices.size() > 1) {
        smaller.push_back(program);
        auto& slices = smaller.back().ops[i].slices;
        slices.erase(slices.begin() + static_cast<std::ptrdiff_t>(j));
      }
      const int64_t tokens = program.ops[i].slices[j].tokens;
      for (const int64_t fewer : {tokens / 2, tokens - tokens / 8, tokens - 1}) {
        if (fewer < 1 || fewer >= tokens) continue;
        smaller.push_back(program);
        smaller.back().ops[i].slices[j].tokens = fewer;
      }
    }
  }
  for (int Setup::*field : {&Setup::kv_heads, &Setup::group}) {
    if (program.setup.*field == 1) continue;
    smaller.push_back(program);
    smaller.back().setup.*field = 1;
  }
  return smaller;
}

}  // namespace holdfast::cube
