#include "cli/replay_plot.h"

#include <algorithm>
#include <cmath>

#include "cli/size.h"
#include "cli/svg.h"

namespace holdfast::cli {
namespace {

using P = PlotArea;

struct Axes {
  int low_decade = 0, high_decade = 1;  // of tokens
  double high_rate = 1.0;

  double X(double tokens) const {
    return P::kLeft + (P::kRight - P::kLeft) * (std::log10(tokens) - low_decade) / (high_decade - low_decade);
  }
  double Y(double rate) const { return P::kBottom - (P::kBottom - P::kTop) * rate / high_rate; }
};

Axes AxesOf(const std::vector<ReplayCell>& cells) {
  Axes axes;
  double low = 0, high = 0, rate = 0;
  for (const ReplayCell& cell : cells) {
    rate = std::max(rate, cell.hit_rate);
    if (cell.budget_tokens == 0) continue;
    const auto tokens = static_cast<double>(cell.budget_tokens);
    low = low > 0 ? std::min(low, tokens) : tokens;
    high = std::max(high, tokens);
  }
  if (rate > 0) axes.high_rate = std::min(1.0, 1.1 * rate);
  if (high <= 0) return axes;
  axes.low_decade = static_cast<int>(std::floor(std::log10(low)));
  axes.high_decade = std::max(static_cast<int>(std::ceil(std::log10(high))), axes.low_decade + 1);
  return axes;
}

// 1k, 10M.
std::string TokensText(int decade) {
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P", "E"};
  return (decade % 3 == 0 ? "1" : decade % 3 == 1 ? "10" : "100") + std::string(kUnits[decade / 3]);
}

std::string Grid(const Axes& axes, int64_t bytes_per_token) {
  std::string svg;
  for (int decade = axes.low_decade; decade <= axes.high_decade; ++decade) {
    for (int i = 2; i < 10 && decade < axes.high_decade; ++i) {
      const double between = axes.X(i * std::pow(10.0, decade));
      svg += SvgLine(between, P::kTop, between, P::kBottom, "#f3f3f3");
    }
    const double x = axes.X(std::pow(10.0, decade));
    svg += SvgLine(x, P::kTop, x, P::kBottom, "#ddd") +
           SvgText(x, P::kBottom + 18, "middle", TokensText(decade));
  }
  const double step = NiceStep(axes.high_rate);
  for (int i = 0; i * step <= axes.high_rate; ++i) {
    const double y = axes.Y(i * step);
    svg += SvgLine(P::kLeft, y, P::kRight, y, "#eee") +
           SvgText(P::kLeft - 8, y + 4, "end", SvgNumber(100 * i * step, "%.4g") + " %");
  }
  const std::string bytes = bytes_per_token == 0 ? "" : " of " + std::to_string(bytes_per_token) + " bytes";
  return svg + SvgAxes("budget in tokens" + bytes, "prompt tokens reused");
}

std::string Label(const ReplayCell& cell) {
  const std::string rate = SvgNumber(100 * cell.hit_rate) + " %";
  return cell.budget_tokens == 0
             ? "no limit: " + rate + " with " + std::to_string(cell.peak_tokens) + " tokens"
             : rate;
}

std::string Points(const Axes& axes, std::vector<ReplayCell> cells) {
  std::stable_sort(cells.begin(), cells.end(), [](const ReplayCell& a, const ReplayCell& b) {
    return a.budget_tokens < b.budget_tokens;
  });
  std::string svg, line, points;
  for (const ReplayCell& cell : cells) {
    const double y = axes.Y(cell.hit_rate);
    if (cell.budget_tokens == 0) {
      svg += "<path d=\"M" + SvgNumber(P::kLeft) + " " + SvgNumber(y) + "H" + SvgNumber(P::kRight) +
             "\" stroke=\"#999\" stroke-dasharray=\"6 4\"/>\n" +
             SvgText(P::kLeft + 8, y - 6, "start", Label(cell));
      continue;
    }
    const double x = axes.X(static_cast<double>(cell.budget_tokens));
    line += SvgNumber(x) + "," + SvgNumber(y) + " ";
    const std::string bytes = cell.peak_bytes == 0 ? "" : " (" + SizeText(cell.peak_bytes) + " at most)";
    points += "<circle cx=\"" + SvgNumber(x) + "\" cy=\"" + SvgNumber(y) +
              "\" r=\"4\" fill=\"#168\"><title>" + std::to_string(cell.budget_tokens) + " tokens" + bytes +
              ": " + Label(cell) + ", " + std::to_string(cell.evictions) + " evictions</title></circle>\n" +
              SvgText(x, y + 18, "middle", Label(cell));
  }
  return svg + "<polyline points=\"" + line + "\" fill=\"none\" stroke=\"#9bc\" stroke-width=\"1.5\"/>\n" +
         points;
}

}  // namespace

std::string ReplayPlot(const std::string& title, const std::vector<ReplayCell>& cells,
                       int64_t bytes_per_token) {
  const Axes axes = AxesOf(cells);
  return SvgPicture(title, Grid(axes, bytes_per_token) + Points(axes, cells));
}

}  // namespace holdfast::cli
