#include "models/hf_rope.h"

#include <fmt/format.h>

#include "base/status_macros.h"
#include "models/json_reader.h"
#include "models/model_config.h"
#include "models/quoted.h"

namespace holdfast {
namespace {

using nlohmann::json;

// A base at the top of the config, beside descriptions that may name one too.
struct TopBase {
  std::string_view key;
  bool given = false;
  double base = 0.0;  // the family's default where it was not given
};

Result<TopBase> ReadTopBase(JsonKeys& keys, std::string_view key, double fallback) {
  TopBase top{key, keys.Has(key), fallback};
  HF_ASSIGN_OR_RETURN(top.base, keys.NumberOr(key, fallback));
  return top;
}

// rope_theta of a description; one that is not what the top of the config says leaves open which is meant.
Result<double> ReadBase(JsonKeys& keys, const TopBase& top) {
  HF_ASSIGN_OR_RETURN(const double base, keys.NumberOr("rope_theta", top.base));
  if (!top.given || base == top.base) return base;
  return InvalidArgument(
      keys.Where(fmt::format("key \"rope_theta\" is {}, key {} of the config is {}, wanted one value", base,
                             Quoted(top.key), top.base)));
}

// rope_type, or type as older files have it; where both are given they must agree.
Result<std::string> ReadRopeType(JsonKeys& keys) {
  HF_ASSIGN_OR_RETURN(const std::string old_name, keys.StringOr("type", ""));
  HF_ASSIGN_OR_RETURN(const std::string new_name, keys.StringOr("rope_type", ""));
  if (!old_name.empty() && !new_name.empty() && old_name != new_name) {
    return InvalidArgument(
        keys.Where(fmt::format("key \"rope_type\" is {}, key \"type\" is {}, wanted one value",
                               Quoted(new_name), Quoted(old_name))));
  }
  if (!new_name.empty()) return new_name;
  return old_name.empty() ? std::string("default") : old_name;
}

// One description of RoPE. original_max_position_embeddings may stand beside any type; only llama3 reads it.
Result<HfRope> ReadRopeObject(const json& object, const std::string& where, const TopBase& top,
                              int64_t context_length) {
  if (!object.is_object()) {
    return InvalidArgument(fmt::format("{} is of type {}, wanted object", where, JsonTypeName(object)));
  }
  JsonKeys keys(object, where);
  HfRope rope;
  HF_ASSIGN_OR_RETURN(const std::string type, ReadRopeType(keys));
  HF_ASSIGN_OR_RETURN(rope.base, ReadBase(keys, top));
  HF_RETURN_IF_ERROR(keys.RefuseUnless("partial_rotary_factor", 1.0));
  if (type == "linear") {
    rope.scaling.kind = RopeScaling::Kind::kLinear;
    HF_ASSIGN_OR_RETURN(rope.scaling.factor, keys.Number("factor"));
  } else if (type == "llama3") {
    rope.scaling.kind = RopeScaling::Kind::kLlama3;
    HF_ASSIGN_OR_RETURN(rope.scaling.factor, keys.Number("factor"));
    HF_ASSIGN_OR_RETURN(rope.scaling.low_freq_factor, keys.Number("low_freq_factor"));
    HF_ASSIGN_OR_RETURN(rope.scaling.high_freq_factor, keys.Number("high_freq_factor"));
    HF_ASSIGN_OR_RETURN(
        rope.scaling.original_max_position,
        keys.CountOr("original_max_position_embeddings", ModelLimits::kMaxContextLength, context_length));
  } else if (type != "default") {
    return Unimplemented(keys.Where(
        fmt::format("key \"rope_type\" is {}, supported are default, linear and llama3", Quoted(type))));
  }
  constexpr std::string_view kHarmless[] = {"original_max_position_embeddings"};
  HF_RETURN_IF_ERROR(keys.CheckAllRead(kHarmless));
  return rope;
}

Status RefuseBoth(JsonKeys& keys) {
  if (!keys.Has("rope_scaling") || !keys.Has("rope_parameters")) return OkStatus();
  return InvalidArgument(
      keys.Where("keys \"rope_scaling\" and \"rope_parameters\" are both there, wanted one"));
}

// rope_theta and rope_scaling at the top of the config.
Result<HfRope> ReadFlatRope(JsonKeys& keys, const TopBase& top, int64_t context_length) {
  HF_RETURN_IF_ERROR(keys.RefuseUnless("partial_rotary_factor", 1.0));
  const json* scaling = keys.Get("rope_scaling");
  if (scaling == nullptr) return HfRope{.base = top.base, .scaling = {}};
  return ReadRopeObject(*scaling, keys.Where("rope_scaling"), top, context_length);
}

}  // namespace

Result<HfRope> ReadHfRope(JsonKeys& keys, double default_base, int64_t context_length) {
  HF_RETURN_IF_ERROR(RefuseBoth(keys));
  HF_ASSIGN_OR_RETURN(const TopBase top, ReadTopBase(keys, "rope_theta", default_base));
  HF_ASSIGN_OR_RETURN(const HfRope flat, ReadFlatRope(keys, top, context_length));
  const json* parameters = keys.Get("rope_parameters");
  if (parameters == nullptr) return flat;
  return ReadRopeObject(*parameters, keys.Where("rope_parameters"), top, context_length);
}

Result<HfLayeredRope> ReadHfLayeredRope(JsonKeys& keys, double default_full_base, double default_sliding_base,
                                        int64_t context_length) {
  HF_RETURN_IF_ERROR(RefuseBoth(keys));
  HF_ASSIGN_OR_RETURN(const TopBase full_top, ReadTopBase(keys, "rope_theta", default_full_base));
  HF_ASSIGN_OR_RETURN(const TopBase sliding_top,
                      ReadTopBase(keys, "rope_local_base_freq", default_sliding_base));
  HfLayeredRope rope;
  HF_ASSIGN_OR_RETURN(rope.full, ReadFlatRope(keys, full_top, context_length));
  rope.sliding.base = sliding_top.base;
  const json* parameters = keys.Get("rope_parameters");
  if (parameters == nullptr) return rope;
  const std::string where = keys.Where("rope_parameters");
  if (!parameters->is_object()) {
    return InvalidArgument(fmt::format("{} is of type {}, wanted object", where, JsonTypeName(*parameters)));
  }
  JsonKeys nested(*parameters, where);
  if (const json* full = nested.Get("full_attention")) {
    HF_ASSIGN_OR_RETURN(rope.full,
                        ReadRopeObject(*full, where + " full_attention", full_top, context_length));
  }
  if (const json* sliding = nested.Get("sliding_attention")) {
    HF_ASSIGN_OR_RETURN(rope.sliding,
                        ReadRopeObject(*sliding, where + " sliding_attention", sliding_top, context_length));
  }
  HF_RETURN_IF_ERROR(nested.CheckAllRead({}));
  return rope;
}

}  // namespace holdfast
