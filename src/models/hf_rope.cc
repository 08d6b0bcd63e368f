#include "models/hf_rope.h"

#include <fmt/format.h>

#include "base/status_macros.h"
#include "models/json_reader.h"
#include "models/model_config.h"
#include "models/quoted.h"

namespace holdfast {
namespace {

using nlohmann::json;

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
Result<HfRope> ReadRopeObject(const json& object, const std::string& where, double default_base,
                              int64_t context_length) {
  if (!object.is_object()) {
    return InvalidArgument(fmt::format("{} is of type {}, wanted object", where, JsonTypeName(object)));
  }
  JsonKeys keys(object, where);
  HfRope rope;
  HF_ASSIGN_OR_RETURN(const std::string type, ReadRopeType(keys));
  HF_ASSIGN_OR_RETURN(rope.base, keys.NumberOr("rope_theta", default_base));
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
Result<HfRope> ReadFlatRope(JsonKeys& keys, double default_base, int64_t context_length) {
  HfRope rope;
  HF_ASSIGN_OR_RETURN(rope.base, keys.NumberOr("rope_theta", default_base));
  HF_RETURN_IF_ERROR(keys.RefuseUnless("partial_rotary_factor", 1.0));
  const json* scaling = keys.Get("rope_scaling");
  if (scaling == nullptr) return rope;
  return ReadRopeObject(*scaling, keys.Where("rope_scaling"), rope.base, context_length);
}

}  // namespace

Result<HfRope> ReadHfRope(JsonKeys& keys, double default_base, int64_t context_length) {
  HF_RETURN_IF_ERROR(RefuseBoth(keys));
  HF_ASSIGN_OR_RETURN(const HfRope flat, ReadFlatRope(keys, default_base, context_length));
  const json* parameters = keys.Get("rope_parameters");
  if (parameters == nullptr) return flat;
  return ReadRopeObject(*parameters, keys.Where("rope_parameters"), flat.base, context_length);
}

Result<HfLayeredRope> ReadHfLayeredRope(JsonKeys& keys, double default_full_base, double default_sliding_base,
                                        int64_t context_length) {
  HF_RETURN_IF_ERROR(RefuseBoth(keys));
  HfLayeredRope rope;
  HF_ASSIGN_OR_RETURN(rope.full, ReadFlatRope(keys, default_full_base, context_length));
  HF_ASSIGN_OR_RETURN(rope.sliding.base, keys.NumberOr("rope_local_base_freq", default_sliding_base));
  const json* parameters = keys.Get("rope_parameters");
  if (parameters == nullptr) return rope;
  const std::string where = keys.Where("rope_parameters");
  if (!parameters->is_object()) {
    return InvalidArgument(fmt::format("{} is of type {}, wanted object", where, JsonTypeName(*parameters)));
  }
  JsonKeys nested(*parameters, where);
  if (const json* full = nested.Get("full_attention")) {
    HF_ASSIGN_OR_RETURN(rope.full,
                        ReadRopeObject(*full, where + " full_attention", rope.full.base, context_length));
  }
  if (const json* sliding = nested.Get("sliding_attention")) {
    HF_ASSIGN_OR_RETURN(rope.sliding, ReadRopeObject(*sliding, where + " sliding_attention",
                                                     rope.sliding.base, context_length));
  }
  HF_RETURN_IF_ERROR(nested.CheckAllRead({}));
  return rope;
}

}  // namespace holdfast
