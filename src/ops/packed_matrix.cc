#include <algorithm>
#include <cassert>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/float16.h"
#include "base/status_macros.h"
#include "ops/ggml_blocks.h"
#include "ops/matmul_state.h"

namespace holdfast {
namespace {

static_assert(static_cast<int>(DType::kF32) == kPackedF32 && static_cast<int>(DType::kQ8_0) == kPackedQ8_0 &&
              static_cast<int>(DType::kQ4_K) == kPackedQ4_K && static_cast<int>(DType::kQ6_K) == kPackedQ6_K);

// Far above any model; keeps every size computed below within 63 bits.
constexpr int64_t kMaxDim = int64_t{1} << 30;

// The matrices of a model are many and small: one arena gives them huge pages together. It lives as long as a
// matrix.
std::shared_ptr<Arena> WeightArena() {
  static std::mutex mutex;
  static std::weak_ptr<Arena> current;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Arena> arena = current.lock();
  if (arena == nullptr) current = arena = std::make_shared<Arena>();
  return arena;
}

std::string Shape(DType type, int64_t rows, int64_t cols) {
  return std::string(GetDTypeTraits(type).name) + " matrix [" + std::to_string(rows) + ", " +
         std::to_string(cols) + "]";
}

Status CheckShape(DType type, int64_t data_bytes, int64_t rows, int64_t cols) {
  if (static_cast<int>(type) >= kPackedFormats) {
    return InvalidArgument("pack weights: type " + std::to_string(static_cast<int>(type)) +
                           " is not a known type");
  }
  if (rows < 1 || cols < 1 || rows > kMaxDim || cols > kMaxDim) {
    return InvalidArgument("pack weights: " + Shape(type, rows, cols) +
                           ": each dimension must be within 1 to " + std::to_string(kMaxDim));
  }
  const int block = GetDTypeTraits(type).block_elements;
  if (cols % block != 0) {
    return InvalidArgument("pack weights: " + Shape(type, rows, cols) + ": columns must be a multiple of " +
                           std::to_string(block));
  }
  const int64_t row_bytes = RowBytesOf(type, cols);
  const auto expected = CheckedMul(row_bytes, rows);
  if (!expected || *expected != data_bytes) {
    return InvalidArgument("pack weights: " + Shape(type, rows, cols) + " has " + std::to_string(data_bytes) +
                           " bytes of data, needs " + (expected ? std::to_string(*expected) : "too many"));
  }
  return OkStatus();
}

// Writes lane `lane` of the codes of 32 inputs; layout: packed_layout.h.
void PackCodes(int bits, const uint8_t* code, int lane, uint8_t* out) {
  for (int k = 0; k < kBlockInputs; ++k) {
    const int q = k / 4, byte = 4 * lane + k % 4;
    if (bits == 8) {
      out[64 * q + byte] = code[k];
      continue;
    }
    uint8_t& nibbles = out[64 * (q % 4) + byte];
    nibbles = static_cast<uint8_t>(nibbles | (code[k] & 0x0f) << (q / 4 * 4));
    uint8_t* upper = out + 256;
    if (bits == 5) upper[byte] = static_cast<uint8_t>(upper[byte] | (code[k] >> 4 & 1) << q);
    if (bits == 6) {
      uint8_t& pair = upper[64 * (q / 4) + byte];
      pair = static_cast<uint8_t>(pair | (code[k] >> 4 & 3) << (q % 4 * 2));
    }
  }
}

uint8_t UnpackCode(int bits, const uint8_t* codes, int lane, int k) {
  const int q = k / 4, byte = 4 * lane + k % 4;
  if (bits == 8) return codes[64 * q + byte];
  int code = codes[64 * (q % 4) + byte] >> (q / 4 * 4) & 0x0f;
  const uint8_t* upper = codes + 256;
  if (bits == 5) code |= (upper[byte] >> q & 1) << 4;
  if (bits == 6) code |= (upper[64 * (q / 4) + byte] >> (q % 4 * 2) & 3) << 4;
  return static_cast<uint8_t>(code);
}

// Where lane's scales lie in a record; the one description for packing and unpacking.
template <typename Bytes, typename Visit>
void VisitScales(int format, Bytes* record, int lane, Visit visit) {
  const PackedTraits& traits = kPackedTraits[format];
  visit(record + 2 * lane, 2, 'd', 0);
  if (traits.has_min) visit(record + 32 + 2 * lane, 2, 'm', 0);
  if (format == kPackedQ6_K) {
    for (int i = 0; i < 16; ++i) visit(record + 32 + 16 * i + lane, 1, 's', i);
  } else if (traits.record_inputs == kMaxBlockInputs) {
    for (int i = 0; i < 8; ++i) {
      visit(record + 64 + 32 * i + lane, 1, 's', i);
      visit(record + 80 + 32 * i + lane, 1, 'n', i);
    }
  }
}

void* ScaleField(DecodedBlock& block, char field, int i) {
  switch (field) {
    case 'd':
      return &block.d;
    case 'm':
      return &block.m;
    case 's':
      return &block.sub_scales[i];
    default:
      return &block.sub_mins[i];
  }
}

void PackIntegerRow(const PackedMatrix::State& s, const uint8_t* row, int lane, uint8_t* panel) {
  const PackedTraits& traits = kPackedTraits[s.format];
  const int code_bytes = CodeBytes(s.format);
  uint8_t* codes = panel + CodesOffset(s.format, s.cols);
  const int block_bytes = GetDTypeTraits(s.type).block_bytes;
  for (int64_t b = 0; b < s.cols / traits.record_inputs; ++b) {
    DecodedBlock block{};
    DecodeGgmlBlock(s.type, row + b * block_bytes, block);
    VisitScales(s.format, panel + b * traits.record_bytes, lane,
                [&](uint8_t* p, size_t size, char field, int i) {
                  std::memcpy(p, ScaleField(block, field, i), size);
                });
    for (int i = 0; i < traits.record_inputs; i += kBlockInputs, codes += code_bytes) {
      PackCodes(traits.code_bits, block.codes + i, lane, codes);
    }
  }
}

void UnpackBlock(const PackedMatrix::State& s, const uint8_t* panel, int lane, int64_t b,
                 DecodedBlock& block) {
  const PackedTraits& traits = kPackedTraits[s.format];
  VisitScales(s.format, panel + b * traits.record_bytes, lane,
              [&](const uint8_t* p, size_t size, char field, int i) {
                std::memcpy(ScaleField(block, field, i), p, size);
              });
  const uint8_t* codes =
      panel + CodesOffset(s.format, s.cols) + b * (traits.record_inputs / kBlockInputs) * CodeBytes(s.format);
  for (int i = 0; i < traits.record_inputs; ++i) {
    block.codes[i] =
        UnpackCode(traits.code_bits, codes + i / kBlockInputs * CodeBytes(s.format), lane, i % kBlockInputs);
  }
}

// A row of float weights, moved element by element; bits unchanged.
template <typename T>
void PackElements(const uint8_t* row, int64_t cols, int lane, uint8_t* panel) {
  for (int64_t k = 0; k < cols; ++k) {
    std::memcpy(panel + (k * kPanelOutputs + lane) * int64_t{sizeof(T)}, row + k * int64_t{sizeof(T)},
                sizeof(T));
  }
}

// A row of any type as floats, from the file's bytes.
void DequantizeFileRow(DType type, const uint8_t* row, int64_t cols, float* out) {
  const DTypeTraits& traits = GetDTypeTraits(type);
  if (type == DType::kF32) {
    std::memcpy(out, row, static_cast<size_t>(cols) * sizeof(float));
    return;
  }
  if (traits.block_elements == 1) {
    for (int64_t k = 0; k < cols; ++k) {
      uint16_t bits;
      std::memcpy(&bits, row + 2 * k, sizeof(bits));
      out[k] = type == DType::kF16 ? F16ToF32(bits) : Bf16ToF32(bits);
    }
    return;
  }
  for (int64_t k = 0; k < cols; k += traits.block_elements, row += traits.block_bytes) {
    DecodedBlock block{};
    DecodeGgmlBlock(type, row, block);
    DequantizeDecoded(type, block, out + k);
  }
}

void PackRow(const PackedMatrix::State& s, const uint8_t* row, int lane, uint8_t* panel) {
  if (IsInteger(s.format)) return PackIntegerRow(s, row, lane, panel);
  if (s.format != kPackedF32) return PackElements<uint16_t>(row, s.cols, lane, panel);
  if (s.type == DType::kF32) return PackElements<uint32_t>(row, s.cols, lane, panel);
  std::vector<float> values(static_cast<size_t>(s.cols));
  DequantizeFileRow(s.type, row, s.cols, values.data());
  PackElements<float>(reinterpret_cast<const uint8_t*>(values.data()), s.cols, lane, panel);
}

}  // namespace

PackedMatrix::State::~State() {
  if (data != nullptr) arena->Free(data, bytes);
}

PackedMatrix::PackedMatrix() = default;
PackedMatrix::~PackedMatrix() = default;
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;

Result<PackedMatrix> PackedMatrix::Pack(DType type, std::span<const std::byte> data, int64_t rows,
                                        int64_t cols, bool exact, ThreadPool& pool) {
  HF_RETURN_IF_ERROR(CheckShape(type, static_cast<int64_t>(data.size()), rows, cols));
  PackedMatrix matrix;
  matrix.state_ = std::make_unique<State>();
  State& s = *matrix.state_;
  s.type = type;
  s.format = exact ? kPackedF32 : static_cast<int>(type);
  s.rows = rows;
  s.cols = cols;
  s.panels = CeilDiv(rows, kPanelOutputs);
  s.panel_bytes = PanelBytes(s.format, cols);
  s.arena = WeightArena();
  const int64_t bytes = s.panels * s.panel_bytes;
  HF_ASSIGN_OR_RETURN(s.data, s.arena->Allocate(bytes));
  s.bytes = bytes;
  const auto* file = reinterpret_cast<const uint8_t*>(data.data());
  const int64_t row_bytes = RowBytesOf(type, cols);
  // A task is several panels: a panel alone is a few microseconds.
  constexpr int64_t kPanelsPerTask = 8;
  pool.ParallelFor(CeilDiv(s.panels, kPanelsPerTask), [&](int64_t task, int) {
    const int64_t first = task * kPanelsPerTask * kPanelOutputs;
    const int64_t last = std::min(rows, first + kPanelsPerTask * kPanelOutputs);
    for (int64_t r = first; r < last; ++r) {
      uint8_t* panel = reinterpret_cast<uint8_t*>(s.data) + r / kPanelOutputs * s.panel_bytes;
      PackRow(s, file + r * row_bytes, static_cast<int>(r % kPanelOutputs), panel);
    }
  });
  return matrix;
}

DType PackedMatrix::type() const {
  return state_->type;
}
int64_t PackedMatrix::rows() const {
  return state_->rows;
}
int64_t PackedMatrix::cols() const {
  return state_->cols;
}
int64_t PackedMatrix::bytes() const {
  return state_->bytes;
}
bool PackedMatrix::integer_activations() const {
  return IsInteger(state_->format);
}

void PackedMatrix::DequantizeRow(int64_t row, float* out) const {
  const State& s = *state_;
  assert(row >= 0 && row < s.rows);
  const uint8_t* panel = s.panel(row / kPanelOutputs);
  const int lane = static_cast<int>(row % kPanelOutputs);
  if (IsInteger(s.format)) {
    const int inputs = kPackedTraits[s.format].record_inputs;
    for (int64_t b = 0; b < s.cols / inputs; ++b) {
      DecodedBlock block{};
      UnpackBlock(s, panel, lane, b, block);
      DequantizeDecoded(s.type, block, out + b * inputs);
    }
    return;
  }
  for (int64_t k = 0; k < s.cols; ++k) {
    const int64_t at = k * kPanelOutputs + lane;
    if (s.format == kPackedF32) {
      std::memcpy(out + k, panel + 4 * at, sizeof(float));
      continue;
    }
    uint16_t bits;
    std::memcpy(&bits, panel + 2 * at, sizeof(bits));
    out[k] = s.format == kPackedF16 ? F16ToF32(bits) : Bf16ToF32(bits);
  }
}

}  // namespace holdfast
