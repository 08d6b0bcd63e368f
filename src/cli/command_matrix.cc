// matrix: the cube. Every layout x codec x storage x operation, exact or refused and why.
#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "holdfast/matrix.h"

namespace holdfast::cli {
namespace {

struct MatrixOptions {
  CommonOptions common;
};

Json CellJson(const MatrixCell& cell) {
  Json json{{"layout", LayoutName(cell.layout)},
            {"storage", StorageName(cell.storage)},
            {"rows", cell.latent ? "latent" : "k,v"},
            {"codec", CodecName(cell.codec)},
            {"operation", cell.operation},
            {"state", cell.refused.empty() ? "exact" : "refused"}};
  if (!cell.refused.empty()) json["why"] = cell.refused;
  return json;
}

Json MatrixJson(const Matrix& matrix) {
  Json cells = Json::array(), pairs = Json::array();
  for (const MatrixCell& cell : matrix.cells) cells.push_back(CellJson(cell));
  for (const MatrixPair& pair : matrix.refused_pairs)
    pairs.push_back({{"kv_cache", KvSpecName(pair.codecs)}, {"why", pair.refused}});
  return {{"cells", cells}, {"pairs", matrix.pairs}, {"refused_pairs", pairs}};
}

bool SameLine(const MatrixCell& a, const MatrixCell& b) {
  return a.layout == b.layout && a.storage == b.storage && a.latent == b.latent && a.codec == b.codec;
}

void Print(const Matrix& matrix) {
  std::vector<std::string> reasons;
  std::printf("%-7s %-10s %-7s %-9s", "layout", "storage", "rows", "codec");
  for (size_t i = 0; i < matrix.cells.size() && SameLine(matrix.cells[i], matrix.cells[0]); ++i)
    std::printf(" %-12s", matrix.cells[i].operation.c_str());
  for (size_t i = 0; i < matrix.cells.size(); ++i) {
    const MatrixCell& cell = matrix.cells[i];
    if (i == 0 || !SameLine(cell, matrix.cells[i - 1])) {
      std::printf("\n%-7s %-10s %-7s %-9s", std::string(LayoutName(cell.layout)).c_str(),
                  std::string(StorageName(cell.storage)).c_str(), cell.latent ? "latent" : "k,v",
                  std::string(CodecName(cell.codec)).c_str());
    }
    if (cell.refused.empty()) {
      std::printf(" %-12s", "exact");
      continue;
    }
    auto reason = std::find(reasons.begin(), reasons.end(), cell.refused);
    if (reason == reasons.end()) reason = reasons.insert(reason, cell.refused);
    std::printf(" %-12s", ("refused " + std::to_string(reason - reasons.begin() + 1)).c_str());
  }
  std::printf("\n");
  for (size_t i = 0; i < reasons.size(); ++i) std::printf("%zu: %s\n", i + 1, reasons[i].c_str());
  std::printf("different codecs for K and V: %d of %d pairs\n",
              matrix.pairs - static_cast<int>(matrix.refused_pairs.size()), matrix.pairs);
  for (const MatrixPair& pair : matrix.refused_pairs)
    std::printf("%s is refused: %s\n", KvSpecName(pair.codecs).c_str(), pair.refused.c_str());
}

Status Run(const MatrixOptions& options) {
  auto matrix = CheckMatrix();
  if (!matrix.ok()) return matrix.status();
  if (options.common.json) {
    std::printf("%s\n", ToJsonText(MatrixJson(*matrix)).c_str());
  } else {
    Print(*matrix);
  }
  return OkStatus();
}

}  // namespace

void AddMatrix(CLI::App& program, Action& action) {
  auto options = std::make_shared<MatrixOptions>();
  CLI::App* app = program.add_subcommand(
      "matrix", "every layout x codec x storage x operation, tried out: exact or refused");
  options->common.AddJson(*app);
  app->callback([options, &action] { action = [options] { return Run(*options); }; });
}

}  // namespace holdfast::cli
