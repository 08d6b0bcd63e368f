// What a batch refuses, each check before anything is changed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/batch.h"
#include "kv/layer_transform.h"

namespace holdfast {

// What KvBatch::Attend was given.
struct AttendArguments {
  LayerId layer;
  int q_heads;
  const float* q;
  const float* k;
  const float* v;
  const AttentionRule& rule;
  const float* out;
};

// No slices, a slice without a sequence, a sequence twice, sequences of different layers: kInvalidArgument.
Status CheckBatch(std::span<const BatchSlice> slices);

// A layer that does not exist (kInvalidArgument) or was attended (kFailedPrecondition), query heads that the KV heads do
// not divide, a null, a number of the rule that is none (kInvalidArgument). `attended` has an entry a layer.
Status CheckAttend(std::span<const BatchSlice> slices, const std::vector<bool>& attended,
                   const AttendArguments& call);

// A value that a codec cannot carry, kInvalidArgument: of all slices before any is appended, so that a refusal leaves
// every sequence's layer as it was. first_token [slices] in the flat batch. Checked are the rows to be stored; a value
// that is not finite spoils all of its transformed row, so it is then looked for in the caller's k and v.
Status CheckRows(std::span<const BatchSlice> slices, std::span<const int64_t> first_token, LayerId layer,
                 const float* k, const float* v, const LayerTransform::Rows& rows);

}  // namespace holdfast
