#include "ops/ggml_blocks.h"

#include <cstddef>
#include <cstring>

#include "base/float16.h"
#include "ops/packed_layout.h"

namespace holdfast {
namespace {

// The files' layouts. Only bytes, so that nothing is padded and any address will do.
struct Q8_0 {
  uint8_t d[2], qs[32];
};
struct Q4_0 {
  uint8_t d[2], qs[16];
};
struct Q4_1 {
  uint8_t d[2], m[2], qs[16];
};
struct Q5_0 {
  uint8_t d[2], qh[4], qs[16];
};
struct Q5_1 {
  uint8_t d[2], m[2], qh[4], qs[16];
};
struct Q4_K {
  uint8_t d[2], dmin[2], scales[12], qs[128];
};
struct Q5_K {
  uint8_t d[2], dmin[2], scales[12], qh[32], qs[128];
};
struct Q6_K {
  uint8_t ql[128], qh[64], scales[16], d[2];
};
static_assert(sizeof(Q8_0) == 34 && sizeof(Q4_0) == 18 && sizeof(Q4_1) == 20 && sizeof(Q5_0) == 22);
static_assert(sizeof(Q5_1) == 24 && sizeof(Q4_K) == 144 && sizeof(Q5_K) == 176 && sizeof(Q6_K) == 210);

template <typename T>
T Read(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

void DecodeQ8(const Q8_0& b, DecodedBlock& out) {
  out.d = Read<uint16_t>(b.d);
  for (int i = 0; i < 32; ++i) out.codes[i] = static_cast<uint8_t>(b.qs[i] ^ 0x80u);
}

// Byte i: input i in the low nibble, input i + 16 in the high one.
void DecodeNibbles(const uint8_t* qs, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = qs[i] & 0x0f;
    codes[i + 16] = static_cast<uint8_t>(qs[i] >> 4);
  }
}

void DecodeFifthBits(const uint8_t* qh, uint8_t* codes) {
  const auto bits = Read<uint32_t>(qh);
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] | ((bits >> i & 1u) << 4));
}

// Eight 6-bit scales and minima in 12 bytes: four of each in the low six bits of bytes 0-3 and 4-7; the
// others have their low nibbles in bytes 8-11 and their upper pairs in the top bits of bytes 0-7.
void DecodeSubScales(const uint8_t* s, DecodedBlock& out) {
  for (int i = 0; i < 4; ++i) {
    out.sub_scales[i] = s[i] & 63;
    out.sub_mins[i] = s[i + 4] & 63;
    out.sub_scales[i + 4] = static_cast<uint8_t>((s[i + 8] & 0x0f) | (s[i] >> 6 << 4));
    out.sub_mins[i + 4] = static_cast<uint8_t>((s[i + 8] >> 4) | (s[i + 4] >> 6 << 4));
  }
}

// Each 32 bytes hold 64 inputs: the first 32 in the low nibbles, the next in the high ones.
void DecodeQ4K(const Q4_K& b, DecodedBlock& out) {
  out.d = Read<uint16_t>(b.d);
  out.m = Read<uint16_t>(b.dmin);
  DecodeSubScales(b.scales, out);
  for (int i = 0; i < 256; ++i) {
    const int byte = i / 64 * 32 + i % 32;
    out.codes[i] = static_cast<uint8_t>(b.qs[byte] >> (i % 64 / 32 * 4) & 0x0f);
  }
}

// As q4_K; bit j of qh[i] is the fifth bit of input 32 * j + i.
void DecodeQ5K(const Q5_K& b, DecodedBlock& out) {
  out.d = Read<uint16_t>(b.d);
  out.m = Read<uint16_t>(b.dmin);
  DecodeSubScales(b.scales, out);
  for (int i = 0; i < 256; ++i) {
    const int byte = i / 64 * 32 + i % 32;
    const int low = b.qs[byte] >> (i % 64 / 32 * 4) & 0x0f;
    out.codes[i] = static_cast<uint8_t>(low | (b.qh[i % 32] >> (i / 32) & 1) << 4);
  }
}

// Two halves of 128 inputs, each four runs of 32: runs 0 and 1 in the low nibbles of ql's 64 bytes, 2 and 3
// in the high ones; run r's upper pair is bits 2r, 2r + 1 of qh's 32 bytes.
void DecodeQ6K(const Q6_K& b, DecodedBlock& out) {
  out.d = Read<uint16_t>(b.d);
  std::memcpy(out.sub_scales, b.scales, 16);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, run = i % 128 / 32, at = i % 32;
    const int low = b.ql[64 * half + 32 * (run % 2) + at] >> (run / 2 * 4) & 0x0f;
    const int high = b.qh[32 * half + at] >> (2 * run) & 3;
    out.codes[i] = static_cast<uint8_t>(low | high << 4);
  }
}

}  // namespace

void DecodeGgmlBlock(DType type, const uint8_t* p, DecodedBlock& out) {
  switch (type) {
    case DType::kQ8_0:
      return DecodeQ8(Read<Q8_0>(p), out);
    case DType::kQ4_0:
      out.d = Read<uint16_t>(p);
      return DecodeNibbles(p + offsetof(Q4_0, qs), out.codes);
    case DType::kQ4_1:
      out.d = Read<uint16_t>(p);
      out.m = Read<uint16_t>(p + offsetof(Q4_1, m));
      return DecodeNibbles(p + offsetof(Q4_1, qs), out.codes);
    case DType::kQ5_0:
      out.d = Read<uint16_t>(p);
      DecodeNibbles(p + offsetof(Q5_0, qs), out.codes);
      return DecodeFifthBits(p + offsetof(Q5_0, qh), out.codes);
    case DType::kQ5_1:
      out.d = Read<uint16_t>(p);
      out.m = Read<uint16_t>(p + offsetof(Q5_1, m));
      DecodeNibbles(p + offsetof(Q5_1, qs), out.codes);
      return DecodeFifthBits(p + offsetof(Q5_1, qh), out.codes);
    case DType::kQ4_K:
      return DecodeQ4K(Read<Q4_K>(p), out);
    case DType::kQ5_K:
      return DecodeQ5K(Read<Q5_K>(p), out);
    case DType::kQ6_K:
      return DecodeQ6K(Read<Q6_K>(p), out);
    case DType::kF32:
    case DType::kF16:
    case DType::kBf16:
      return;
  }
}

void DequantizeDecoded(DType type, const DecodedBlock& block, float* out) {
  const PackedTraits& traits = kPackedTraits[static_cast<int>(type)];
  const int inputs = traits.record_inputs;
  const float d = F16ToF32(block.d);
  const float m = traits.has_min ? F16ToF32(block.m) : 0.0f;
  for (int i = 0; i < inputs; ++i) {
    float scale = d, minimum = m;
    if (type == DType::kQ6_K) {
      scale = d * static_cast<float>(static_cast<int8_t>(block.sub_scales[i / 16]));
    } else if (inputs == kMaxBlockInputs) {
      scale = d * static_cast<float>(block.sub_scales[i / 32]);
      minimum = -(m * static_cast<float>(block.sub_mins[i / 32]));
    }
    const float product = scale * static_cast<float>(static_cast<int>(block.codes[i]) - traits.code_offset);
    out[i] = traits.has_min ? product + minimum : product;
  }
}

}  // namespace holdfast
