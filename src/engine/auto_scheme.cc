// The search behind `auto:kld=`: rank, order, check (see holdfast/auto_scheme.h).
#include "holdfast/auto_scheme.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "codec/codec.h"
#include "engine/auto_limits.h"
#include "engine/scheme_path.h"
#include "holdfast/eval.h"

namespace holdfast {
namespace {

// Of the target: another text is another text. Wikitext costs SmolLM2 1.4 times what text that it wrote itself does.
constexpr double kMargin = 0.65;
constexpr int64_t kProtectedRows = 4;  // attention sinks
constexpr size_t kTogether = 16;       // caches that are measured side by side
constexpr size_t kFloorProbes = 5;     // layers
constexpr int64_t kPointsARound = 3;   // of the path
constexpr double kLeastShare = 0.02;   // of the mean cost: what a side is taken to cost that measures nothing
constexpr double kLeastTotal = 1e-6;   // nats, as much for a codec in all K or all V
constexpr int64_t kMaxChunk = 1 << 20;  // tokens
constexpr CodecId kCandidates[] = {CodecId::kInt8,    CodecId::kAura8, CodecId::kAura6, CodecId::kAffine6,
                                   CodecId::kAffine4, CodecId::kAura4, CodecId::kAura3, CodecId::kAura2};

using Codecs = std::vector<KvSpec>;  // a layer
enum Side : size_t { kKeys, kValues, kSides };

CodecSpec& Of(KvSpec& spec, Side side) {
  return side == kKeys ? spec.k : spec.v;
}

std::vector<LayerScheme> SchemesOf(const Codecs& codecs) {
  std::vector<LayerScheme> schemes;
  for (size_t i = 0; i < codecs.size(); ++i) {
    const auto layer = static_cast<int>(i);
    if (!schemes.empty() && schemes.back().codecs == codecs[i]) {
      schemes.back().last = layer;
    } else {
      schemes.push_back({layer, layer, codecs[i]});
    }
  }
  return schemes;
}

class SchemeSearch {
 public:
  SchemeSearch(Engine& engine, std::span<const int32_t> tokens, CacheOptions base, const AutoOptions& options,
               const AutoLimits& limits)
      : engine_(engine),
        tokens_(tokens),
        base_(std::move(base)),
        options_(options),
        limits_(limits),
        layers_(static_cast<size_t>(engine.info().layers)) {
    for (const CodecId id : kCandidates) {
      if (base_.rotate != KvRotate::kOff || !GetCodec(id).always_rotated) codecs_.push_back(id);
    }
    // The fewest bits: their error stands out of what int8 activations and chance do to any figure.
    probe_ = *std::min_element(codecs_.begin(), codecs_.end(),
                               [](CodecId a, CodecId b) { return GetCodec(a).bits < GetCodec(b).bits; });
  }

  Result<AutoScheme> Run() {
    HF_RETURN_IF_ERROR(FindBytes());
    HF_RETURN_IF_ERROR(ChooseProtection());
    HF_RETURN_IF_ERROR(MeasureSides());
    HF_RETURN_IF_ERROR(MeasureCodecs());
    steps_ = CheapestSteps(Places());
    return Check();
  }

 private:
  Codecs AllFloat() const { return Codecs(layers_); }
  Codecs AllOf(CodecId codec, bool keys, bool values) const {
    return Codecs(layers_, KvSpec{keys ? codec : CodecId::kF16, values ? codec : CodecId::kF16});
  }
  AutoScheme SchemeOf(const Codecs& codecs) const {
    AutoScheme scheme;
    scheme.layers = SchemesOf(codecs);
    scheme.protection = protection_;
    return scheme;
  }
  Result<std::vector<int64_t>> LayerBytes(const Codecs& codecs) const {
    HF_ASSIGN_OR_RETURN(const CacheConfig config,
                        engine_.MakeCacheConfig(WithScheme(base_, SchemeOf(codecs))));
    std::vector<int64_t> bytes;
    for (const LayerConfig& layer : config.layers) {
      HF_ASSIGN_OR_RETURN(const int64_t row, RowBytes(layer));
      bytes.push_back(row);
    }
    return bytes;
  }
  Status FindBytes();
  Status ChooseProtection();
  Status MeasureSides();
  Status MeasureCodecs();
  std::vector<std::vector<CodecCost>> Places() const;
  Codecs Point(int64_t steps) const;
  Result<double> FloatKld();
  Result<AutoScheme> Check();
  Result<std::vector<double>> Measure(bool held_out, const std::vector<Codecs>& schemes);
  double FloorOf(size_t layer) const;

  Engine& engine_;
  const std::span<const int32_t> tokens_;
  const CacheOptions base_;
  const AutoOptions& options_;
  const AutoLimits limits_;
  const size_t layers_;
  std::vector<CodecId> codecs_;
  CodecId probe_ = CodecId::kF16;
  ProtectionConfig protection_;
  int64_t done_tokens_ = 0, total_tokens_ = 0;

  std::vector<int64_t> float_bytes_;                 // [layer], both sides
  std::vector<std::vector<int64_t>> saved_[kSides];  // [codec][layer], against f16
  std::vector<size_t> floor_layers_;                 // ascending
  std::vector<double> floors_;                       // of those
  std::vector<double> side_kld_[kSides];             // [layer], of the probing codec
  std::vector<double> codec_share_[kSides];          // [codec], of the sum over layers of side_kld_
  std::vector<PathStep> steps_;                      // place = layer * kSides + side; codec 0 is f16
};

// Measures on the ranking text, or on the held-out text behind it.
Result<std::vector<double>> SchemeSearch::Measure(bool held_out, const std::vector<Codecs>& schemes) {
  const auto ranking = static_cast<size_t>(limits_.RankingText());
  EvalOptions how;
  how.context_tokens = held_out ? limits_.context_tokens : limits_.ranking_tokens;
  how.chunks = held_out ? limits_.held_out_chunks : limits_.ranking_chunks;
  how.batch_tokens = options_.batch_tokens;
  how.time_decode = false;
  const auto text = held_out ? tokens_.subspan(ranking) : tokens_.first(ranking);
  std::vector<double> klds;
  for (size_t begin = 0; begin < schemes.size(); begin += kTogether) {
    std::vector<CacheOptions> group;
    for (size_t i = begin; i < std::min(schemes.size(), begin + kTogether); ++i) {
      group.push_back(WithScheme(base_, SchemeOf(schemes[i])));
    }
    int64_t group_tokens = 0;
    how.progress = [&](int64_t done, int64_t total) {
      group_tokens = total;
      if (options_.progress) {
        options_.progress(held_out ? "checking" : "ranking", done_tokens_ + done,
                          std::max(total_tokens_, done_tokens_ + total));
      }
    };
    CacheOptions reference = WithScheme(base_, SchemeOf(AllFloat()));
    reference.sparse_v = 0.0f;  // the target is a distance from f16 that attends every row
    reference.sparse_pages = 0;
    HF_ASSIGN_OR_RETURN(const QualityReport report, MeasureQuality(engine_, text, reference, group, how));
    for (const SchemeQuality& quality : report.schemes) {
      // A scheme whose outputs are no numbers has no divergence: never to be chosen.
      klds.push_back(std::isfinite(quality.kld_mean) ? std::max(0.0, quality.kld_mean) : 1e9);
    }
    done_tokens_ += group_tokens;
  }
  return klds;
}

Status SchemeSearch::FindBytes() {
  HF_ASSIGN_OR_RETURN(float_bytes_, LayerBytes(AllFloat()));
  for (const Side side : {kKeys, kValues}) {
    for (const CodecId codec : codecs_) {
      HF_ASSIGN_OR_RETURN(std::vector<int64_t> bytes,
                          LayerBytes(AllOf(codec, side == kKeys, side == kValues)));
      for (size_t i = 0; i < layers_; ++i) bytes[i] = float_bytes_[i] - bytes[i];
      saved_[side].push_back(std::move(bytes));
    }
  }
  const auto runs = static_cast<int64_t>(2 * layers_ + kFloorProbes + 2 * codecs_.size() + 2);
  total_tokens_ =
      (runs + runs / static_cast<int64_t>(kTogether) + 3) * limits_.ranking_chunks * limits_.ranking_tokens;
  return OkStatus();
}

Status SchemeSearch::ChooseProtection() {
  protection_ = base_.protection;
  if (!protection_.none()) return OkStatus();
  // 4 bits: of the order of what a target asks for.
  const Codecs codecs = AllOf(CodecId::kAffine4, true, true);
  HF_ASSIGN_OR_RETURN(const std::vector<double> plain, Measure(false, {codecs}));
  protection_.sink_tokens = kProtectedRows;
  HF_ASSIGN_OR_RETURN(const std::vector<double> with, Measure(false, {codecs}));
  if (with[0] >= plain[0]) protection_ = {};
  return OkStatus();
}

// What any change in a layer costs, however small: with int8 activations every one falls on the other side of some
// rounding downstream. bf16 stands for such a change; other layers are interpolated.
double SchemeSearch::FloorOf(size_t layer) const {
  size_t i = 0;
  while (i + 2 < floor_layers_.size() && floor_layers_[i + 1] < layer) ++i;
  if (floor_layers_.size() < 2) return floors_[0];
  const auto begin = static_cast<double>(floor_layers_[i]), end = static_cast<double>(floor_layers_[i + 1]);
  const double at = (static_cast<double>(layer) - begin) / (end - begin);
  return floors_[i] + at * (floors_[i + 1] - floors_[i]);
}

Status SchemeSearch::MeasureSides() {
  const size_t probe =
      static_cast<size_t>(std::find(codecs_.begin(), codecs_.end(), probe_) - codecs_.begin());
  std::vector<Codecs> schemes;
  const size_t floors = std::min(kFloorProbes, layers_);
  for (size_t i = 0; i < floors; ++i) {
    const size_t layer = floors < 2 ? 0 : i * (layers_ - 1) / (floors - 1);
    floor_layers_.push_back(layer);
    schemes.push_back(AllFloat());
    schemes.back()[layer] = {CodecId::kBf16, CodecId::kBf16};
  }
  std::vector<std::pair<Side, size_t>> of_scheme;
  for (const Side side : {kKeys, kValues}) {
    side_kld_[side].assign(layers_, 0.0);
    for (size_t layer = 0; layer < layers_; ++layer) {
      if (saved_[side][probe][layer] <= 0) continue;  // a layer that stays as it is, a latent's values
      schemes.push_back(AllFloat());
      Of(schemes.back()[layer], side) = probe_;
      of_scheme.emplace_back(side, layer);
    }
  }
  HF_ASSIGN_OR_RETURN(const std::vector<double> klds, Measure(false, schemes));
  floors_.assign(klds.begin(), klds.begin() + static_cast<std::ptrdiff_t>(floors));
  for (size_t i = 0; i < of_scheme.size(); ++i) {
    const auto [side, layer] = of_scheme[i];
    side_kld_[side][layer] = std::max(0.0, klds[floors + i] - FloorOf(layer));
  }
  for (std::vector<double>& side : side_kld_) {
    const double mean = std::accumulate(side.begin(), side.end(), 0.0) / static_cast<double>(layers_);
    for (double& kld : side) kld = std::max({kld, kLeastShare * mean, 1e-12});
  }
  return OkStatus();
}

Status SchemeSearch::MeasureCodecs() {
  std::vector<Codecs> schemes;
  for (const Side side : {kKeys, kValues}) {
    for (const CodecId codec : codecs_) schemes.push_back(AllOf(codec, side == kKeys, side == kValues));
  }
  HF_ASSIGN_OR_RETURN(const std::vector<double> klds, Measure(false, schemes));
  for (const Side side : {kKeys, kValues}) {
    const double sum = std::accumulate(side_kld_[side].begin(), side_kld_[side].end(), 0.0);
    for (size_t c = 0; c < codecs_.size(); ++c) {
      const double kld = klds[side * codecs_.size() + c];
      codec_share_[side].push_back(std::max(kld - FloorOf(0), kLeastTotal) / sum);
    }
  }
  return OkStatus();
}

std::vector<std::vector<CodecCost>> SchemeSearch::Places() const {
  std::vector<std::vector<CodecCost>> places;
  for (size_t layer = 0; layer < layers_; ++layer) {
    for (const Side side : {kKeys, kValues}) {
      std::vector<CodecCost>& choices = places.emplace_back();
      choices.push_back({0, 0.0});  // f16; of the bytes only differences count
      for (size_t c = 0; c < codecs_.size(); ++c) {
        choices.push_back({-saved_[side][c][layer], side_kld_[side][layer] * codec_share_[side][c]});
      }
    }
  }
  return places;
}

Codecs SchemeSearch::Point(int64_t steps) const {
  Codecs codecs = AllFloat();
  for (size_t i = 0; i < static_cast<size_t>(steps); ++i) {
    const PathStep& step = steps_[i];
    Of(codecs[step.place / kSides], static_cast<Side>(step.place % kSides)) = codecs_[step.codec - 1];
  }
  return codecs;
}

// What no scheme is below: 0, but where rows or pages are left out of f16 itself.
Result<double> SchemeSearch::FloatKld() {
  if (base_.sparse_v <= 0.0f && base_.sparse_pages == 0) return 0.0;
  HF_ASSIGN_OR_RETURN(const std::vector<double> klds, Measure(true, {AllFloat()}));
  if (klds[0] <= kMargin * options_.kld) return klds[0];
  return InvalidArgument("auto: f16 with sparse_v " + std::to_string(base_.sparse_v) + " and sparse_pages " +
                         std::to_string(base_.sparse_pages) + " diverges by " + std::to_string(klds[0]) +
                         " from all rows, must be at most " + std::to_string(kMargin * options_.kld));
}

// Which points are measured depends on earlier answers alone, and a point that meets a target meets every looser one:
// so a looser target ends as far on the path or further.
Result<AutoScheme> SchemeSearch::Check() {
  const auto end = static_cast<int64_t>(steps_.size()) + 1;
  int64_t good = 0, bad = end;  // steps
  done_tokens_ = 0;
  int64_t rounds = 1;
  for (int64_t left = end; left > 1; left /= kPointsARound + 1) ++rounds;
  total_tokens_ = rounds * (kPointsARound + 1) * limits_.held_out_chunks * limits_.context_tokens;
  HF_ASSIGN_OR_RETURN(double good_kld, FloatKld());
  while (bad - good > 1) {
    std::vector<int64_t> points;
    for (int64_t i = 1; i <= kPointsARound; ++i) {
      const int64_t point = good + (bad - good) * i / (kPointsARound + 1);
      if (point > (points.empty() ? good : points.back())) points.push_back(point);
    }
    if (points.empty()) points.push_back(good + 1);
    std::vector<Codecs> schemes;
    for (const int64_t point : points) schemes.push_back(Point(point));
    HF_ASSIGN_OR_RETURN(const std::vector<double> klds, Measure(true, schemes));
    for (size_t i = points.size(); i-- > 0;) {
      if (klds[i] <= kMargin * options_.kld) {
        good = points[i];
        good_kld = klds[i];
        break;
      }
      bad = points[i];
    }
  }
  AutoScheme scheme = SchemeOf(Point(good));
  scheme.kld_held_out = good_kld;
  if (good > 0) {
    HF_ASSIGN_OR_RETURN(const std::vector<double> klds, Measure(false, {Point(good)}));
    scheme.kld_calibration = klds[0];
  } else {
    scheme.protection = base_.protection;
  }
  HF_ASSIGN_OR_RETURN(const std::vector<int64_t> bytes, LayerBytes(Point(good)));
  scheme.bytes_per_token = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  return scheme;
}

Status CheckOption(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return OkStatus();
  return InvalidArgument("auto: " + std::string(name) + " is " + std::to_string(value) + ", must be in [" +
                         std::to_string(least) + ", " + std::to_string(most) + "]");
}

}  // namespace

Result<AutoLimits> AutoLimitsOf(const Engine& engine, const CacheOptions& base, const AutoOptions& options) {
  if (!(options.kld > 0.0) || !std::isfinite(options.kld)) {
    return InvalidArgument("auto: kld is " + std::to_string(options.kld) +
                           ", must be > 0 and finite: only f16 itself has none");
  }
  HF_RETURN_IF_ERROR(CheckOption("ranking_tokens", options.ranking_tokens, 8, kMaxChunk));
  HF_RETURN_IF_ERROR(CheckOption("ranking_chunks", options.ranking_chunks, 1, kMaxChunk));
  HF_RETURN_IF_ERROR(CheckOption("context_tokens", options.context_tokens, 8, kMaxChunk));
  HF_RETURN_IF_ERROR(CheckOption("held_out_chunks", options.held_out_chunks, 1, kMaxChunk));
  HF_RETURN_IF_ERROR(CheckOption("batch_tokens", options.batch_tokens, 1, kMaxChunk));
  if (!base.layers.empty()) {
    return InvalidArgument("auto: layers are " + LayerSchemesName(base.layers) +
                           ", must be empty: they are what is chosen");
  }
  const int64_t context = base.max_context > 0 ? std::min(base.max_context, engine.info().context_length)
                                               : engine.info().context_length;
  HF_RETURN_IF_ERROR(CheckOption("max_context", context, 8, kMaxContextTokens));
  return AutoLimits{std::min(options.ranking_tokens, context), options.ranking_chunks,
                    std::min(options.context_tokens, context), options.held_out_chunks};
}

Result<AutoScheme> ChooseScheme(Engine& engine, std::span<const int32_t> calibration_tokens,
                                const CacheOptions& base, const AutoOptions& options) {
  HF_ASSIGN_OR_RETURN(AutoLimits limits, AutoLimitsOf(engine, base, options));
  const int64_t behind = static_cast<int64_t>(calibration_tokens.size()) - limits.RankingText();
  if (behind < limits.context_tokens) {
    return InvalidArgument("auto: the text has " + std::to_string(calibration_tokens.size()) +
                           " tokens, ranking and one held-out chunk need " +
                           std::to_string(limits.RankingText() + limits.context_tokens));
  }
  limits.held_out_chunks = std::min(limits.held_out_chunks, behind / limits.context_tokens);
  return SchemeSearch(engine, calibration_tokens, base, options, limits).Run();
}

CacheOptions WithScheme(CacheOptions base, const AutoScheme& scheme) {
  base.k_codec = base.v_codec = CodecId::kF16;
  base.layers = scheme.layers;
  base.protection = scheme.protection;
  return WithoutIdleTransforms(std::move(base));
}

}  // namespace holdfast
