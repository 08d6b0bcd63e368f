#include "models/gguf_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status_macros.h"
#include "models/quoted.h"

namespace holdfast {
namespace {

// Keys under the architecture's prefix that say nothing about the mathematics. What `rope.scaling` has of
// YaRN matters only where rope.scaling.type says yarn, which is refused.
constexpr std::string_view kHarmless[] = {"tensor_data_layout", "rope.scaling.original_context_length",
                                          "rope.scaling.finetuned"};

// Keys that do change it, and that are fine at the value that leaves it as it is.
struct Neutral {
  std::string_view key;
  double value;
};
constexpr Neutral kNeutral[] = {
    {"expert_count", 0},      {"expert_used_count", 0},   {"use_parallel_residual", 0},
    {"attention.causal", 1},  {"attention.clamp_kqv", 0}, {"attention.max_alibi_bias", 0},
    {"logit_scale", 1},       {"residual_scale", 1},      {"rope.scaling.attn_factor", 1},
    {"rope.scale_linear", 1}, {"pooling_type", 0},
};

}  // namespace

std::string GgufKeys::Where(std::string_view what) const {
  return fmt::format("read gguf {}: {}", Quoted(file_.path()), what);
}

std::string GgufKeys::Key(std::string_view suffix) {
  std::string key = prefix_ + std::string(suffix);
  read_.insert(key);
  return key;
}

Result<int64_t> GgufKeys::CheckCount(const std::string& key, int64_t value, int64_t limit) const {
  if (value >= 1 && value <= limit) return value;
  return OutOfRange(Where(fmt::format("key {} is {}, the limits are 1 and {}", Quoted(key), value, limit)));
}

Result<int64_t> GgufKeys::Count(std::string_view suffix, int64_t limit) {
  const std::string key = Key(suffix);
  HF_ASSIGN_OR_RETURN(const int64_t value, file_.Int(key));
  return CheckCount(key, value, limit);
}

Result<int64_t> GgufKeys::CountOr(std::string_view suffix, int64_t limit, int64_t fallback) {
  return Has(suffix) ? Count(suffix, limit) : Result<int64_t>(fallback);
}

Result<double> GgufKeys::FloatOr(std::string_view suffix, double fallback) {
  const std::string key = Key(suffix);
  return file_.Has(key) ? file_.Float(key) : Result<double>(fallback);
}

Result<int64_t> GgufKeys::UniformCount(std::string_view suffix, int64_t limit, int64_t layers) {
  const std::string key = Key(suffix);
  const GgufValue* value = file_.Find(key);
  if (value == nullptr || value->type != GgufType::kArray) return Count(suffix, limit);
  HF_ASSIGN_OR_RETURN(const std::vector<int64_t> counts, file_.Ints(key));
  if (counts.size() != static_cast<size_t>(layers)) {
    return InvalidArgument(
        Where(fmt::format("key {} has {} values, there are {} layers", Quoted(key), counts.size(), layers)));
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == counts[0]) continue;
    return Unimplemented(
        Where(fmt::format("key {} is {} at layer {} and {} at layer 0, supported is one value for all",
                          Quoted(key), counts[i], i, counts[0])));
  }
  return CheckCount(key, counts[0], limit);
}

Status GgufKeys::CheckNeutral() {
  for (const Neutral& neutral : kNeutral) {
    if (!Has(neutral.key)) continue;
    const std::string key = Key(neutral.key);
    double found = 0;
    const GgufType type = file_.Find(key)->type;
    if (type == GgufType::kBool) {
      HF_ASSIGN_OR_RETURN(const bool value, file_.Bool(key));
      found = value ? 1 : 0;
    } else if (type == GgufType::kFloat32 || type == GgufType::kFloat64) {
      HF_ASSIGN_OR_RETURN(found, file_.Float(key));
    } else {
      HF_ASSIGN_OR_RETURN(const int64_t value, file_.Int(key));
      found = static_cast<double>(value);
    }
    if (found != neutral.value) {
      return Unimplemented(
          Where(fmt::format("key {} is {}, supported is {}", Quoted(key), found, neutral.value)));
    }
  }
  return OkStatus();
}

Status GgufKeys::CheckAllRead() const {
  for (const GgufValue& value : file_.metadata()) {
    if (!value.key.starts_with(prefix_) || read_.contains(value.key)) continue;
    const std::string_view suffix = value.key.substr(prefix_.size());
    if (std::find(std::begin(kHarmless), std::end(kHarmless), suffix) != std::end(kHarmless)) continue;
    return Unimplemented(Where(fmt::format("key {} is not known to this architecture", Quoted(value.key))));
  }
  return OkStatus();
}

Result<RopeScaling> GgufKeys::ReadRopeScaling() {
  RopeScaling scaling;
  std::string_view type = "linear";  // what llama.cpp assumes where only a factor is given
  const std::string type_key = Key("rope.scaling.type");
  if (file_.Has(type_key)) {
    HF_ASSIGN_OR_RETURN(type, file_.String(type_key));
  }
  if (type != "none" && type != "linear") {
    return Unimplemented(Where(
        fmt::format("key {} is {}, supported are \"none\" and \"linear\"", Quoted(type_key), Quoted(type))));
  }
  HF_ASSIGN_OR_RETURN(const double factor, FloatOr("rope.scaling.factor", 1.0));
  if (type == "linear" && factor != 0.0 && factor != 1.0) {  // 0 stands for none in these files
    scaling.kind = RopeScaling::Kind::kLinear;
    scaling.factor = factor;
  }
  return scaling;
}

}  // namespace holdfast
