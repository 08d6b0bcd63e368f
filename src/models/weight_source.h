// One interface over the tensors of every file format, by canonical (GGUF) names: "token_embd.weight",
// "blk.0.attn_q.weight", "output_norm.weight" (the list: docs/formats/weights.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "holdfast/status.h"
#include "models/gguf.h"
#include "models/safetensors.h"
#include "tensor/dtype.h"

namespace holdfast {

struct ModelFamily;

// A matrix [rows, cols] (rows = outputs, cols = inputs, contiguous) or a vector [cols] with rows = 1.
struct Weight {
  std::string_view name;  // canonical; valid while the source lives
  DType type = DType::kF32;
  int64_t rows = 1, cols = 0;
  std::span<const std::byte>
      bytes;  // rows * RowBytesOf(type, cols); into the mapping; no alignment is promised
};

// Hands out each tensor once and knows which ones nobody asked for. Not thread-safe.
class WeightSource {
 public:
  struct Entry {
    std::string name;       // canonical; "" for a tensor that has none and so can never be taken
    std::string file_name;  // the tensor's name in the file
    Weight weight;          // its name is filled in by Create
    std::function<void()> forget;
    bool taken = false;
  };
  // REQUIRES: owner keeps every entry's bytes alive.
  // Errors: kDataLoss (two tensors with the same canonical name).
  static Result<std::unique_ptr<WeightSource>> Create(std::shared_ptr<const void> owner, std::string path,
                                                      std::vector<Entry> entries);
  WeightSource(const WeightSource&) = delete;
  WeightSource& operator=(const WeightSource&) = delete;

  bool Has(std::string_view name) const { return index_.contains(name); }
  // The tensor `name`, of exactly this shape. Errors: kNotFound (names it), kInvalidArgument (shape found and
  // wanted).
  Result<Weight> Take(std::string_view name, int64_t rows, int64_t cols);
  // A vector of `n` values (norms, biases) as floats, from F32, F16 or BF16, its pages then forgotten.
  // Errors: as Take, and kUnimplemented for another element type.
  Result<std::vector<float>> TakeVector(std::string_view name, int64_t n);
  // Lets the system drop the pages of a weight that has been repacked; its bytes must not be read after this
  // for speed's sake.
  void Forget(const Weight& weight);

  // The file's names of tensors that nobody took, in file order.
  std::vector<std::string> Unused() const;
  // OK where every tensor has been taken; else kUnimplemented naming the first ones: a tensor that the family
  // does not know would change the mathematics.
  Status CheckAllTaken() const;

  int64_t total_bytes() const { return total_bytes_; }
  const std::string& path() const { return path_; }

 private:
  WeightSource() = default;
  std::shared_ptr<const void> owner_;
  std::string path_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, size_t> index_;
  int64_t total_bytes_ = 0;
};

// Tensors of more than two dims have no canonical name, and so are refused by CheckAllTaken.
Result<std::unique_ptr<WeightSource>> MakeWeightSource(std::shared_ptr<const GgufFile> file);
// family: whose Hugging Face names are mapped; tied_embeddings: an lm_head that repeats the embeddings byte
// for byte is dropped, another one refused. Names that map to nothing stay as they are, and so are refused by
// CheckAllTaken; what the family leaves out and stored rotary tables are dropped.
Result<std::unique_ptr<WeightSource>> MakeWeightSource(std::shared_ptr<const SafetensorsModel> model,
                                                       std::string folder, const ModelFamily& family,
                                                       bool tied_embeddings);

// The canonical name of a Hugging Face tensor, "" where there is none.
std::string CanonicalName(const ModelFamily& family, std::string_view hf_name);

}  // namespace holdfast
