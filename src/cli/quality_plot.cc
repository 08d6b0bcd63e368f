#include "cli/quality_plot.h"

#include <algorithm>
#include <cmath>

#include "cli/svg.h"

namespace holdfast::cli {
namespace {

constexpr double kLeft = PlotArea::kLeft, kRight = PlotArea::kRight, kTop = PlotArea::kTop;
constexpr double kBottom = PlotArea::kBottom;
constexpr double kLabelHeight = 14, kLetterWidth = 6.8, kRadius = 4;

struct Axes {
  double largest_bytes = 1;
  int low_decade = -4, high_decade = 0;

  double X(double bytes) const { return kLeft + (kRight - kLeft) * bytes / largest_bytes; }
  double Y(double kld) const {
    if (kld <= 0.0) return kBottom;
    return kBottom - (kBottom - kTop) * (std::log10(kld) - low_decade) / (high_decade - low_decade);
  }
};

Axes AxesOf(const std::vector<QualityPoint>& points) {
  Axes axes;
  double low = 0.0, high = 0.0;
  for (const QualityPoint& p : points) {
    axes.largest_bytes = std::max(axes.largest_bytes, 1.06 * static_cast<double>(p.bytes_per_token));
    if (p.kld <= 0.0) continue;
    low = low > 0.0 ? std::min(low, p.kld) : p.kld;
    high = std::max(high, p.kld);
  }
  if (high <= 0.0) return axes;
  axes.low_decade = static_cast<int>(std::floor(std::log10(low)));
  axes.high_decade = std::max(static_cast<int>(std::ceil(std::log10(high))), axes.low_decade + 1);
  return axes;
}

std::string Grid(const Axes& axes) {
  std::string svg;
  for (int decade = axes.low_decade; decade <= axes.high_decade; ++decade) {
    for (int i = 2; i < 10 && decade < axes.high_decade; ++i) {
      const double between = axes.Y(i * std::pow(10.0, decade));
      svg += SvgLine(kLeft, between, kRight, between, "#f3f3f3");
    }
    const double y = axes.Y(std::pow(10.0, decade));
    svg += SvgLine(kLeft, y, kRight, y, "#ddd") +
           SvgText(kLeft - 8, y + 4, "end", "1e" + std::to_string(decade));
  }
  const double step = NiceStep(axes.largest_bytes);
  for (double bytes = 0; bytes <= axes.largest_bytes; bytes += step) {
    svg += SvgLine(axes.X(bytes), kTop, axes.X(bytes), kBottom, "#eee") +
           SvgText(axes.X(bytes), kBottom + 18, "middle", SvgNumber(bytes, "%.0f"));
  }
  return svg + SvgAxes("bytes a token", "mean KL divergence from f16 (nats)");
}

// Points that no other beats in bytes and divergence both, by bytes.
std::vector<QualityPoint> Frontier(std::vector<QualityPoint> points) {
  std::sort(points.begin(), points.end(), [](const QualityPoint& a, const QualityPoint& b) {
    return a.bytes_per_token != b.bytes_per_token ? a.bytes_per_token < b.bytes_per_token : a.kld < b.kld;
  });
  std::vector<QualityPoint> best;
  for (const QualityPoint& p : points) {
    if (best.empty() || p.kld < best.back().kld) best.push_back(p);
  }
  return best;
}

struct Box {
  double x, y, width, height;  // y: the top

  double Overlap(const Box& other) const {
    const double w = std::min(x + width, other.x + other.width) - std::max(x, other.x);
    const double h = std::min(y + height, other.y + other.height) - std::max(y, other.y);
    return w > 0 && h > 0 ? w * h : 0;
  }
};

// Where the label covers least of the other labels and of the points, of eight places around its point.
Box PlaceLabel(double x, double y, const std::string& label, const std::vector<Box>& taken) {
  const double width = kLetterWidth * static_cast<double>(label.size());
  const Box area{kLeft, kTop, kRight - kLeft, kBottom - kTop};
  Box best{};
  double least = -1;
  for (const double up : {0.5, 1.2, -0.2, 1.9, -0.9}) {
    for (const double left : {x + kRadius + 3, x - kRadius - 3 - width, x - width / 2}) {
      if (up == 0.5 && left == x - width / 2) continue;  // on the point itself
      const Box box{left, y - up * kLabelHeight, width, kLabelHeight};
      double cost = width * kLabelHeight - box.Overlap(area);
      for (const Box& other : taken) cost += box.Overlap(other);
      if (least >= 0 && cost >= least) continue;
      least = cost;
      best = box;
    }
  }
  return best;
}

std::string Points(const Axes& axes, const std::vector<QualityPoint>& points) {
  std::string svg, line;
  for (const QualityPoint& p : Frontier(points)) {
    line += SvgNumber(axes.X(static_cast<double>(p.bytes_per_token))) + "," + SvgNumber(axes.Y(p.kld)) + " ";
  }
  svg += "<polyline points=\"" + line + "\" fill=\"none\" stroke=\"#9bc\" stroke-width=\"1.5\"/>\n";
  std::vector<Box> taken;
  for (const QualityPoint& p : points) {
    const double x = axes.X(static_cast<double>(p.bytes_per_token)), y = axes.Y(p.kld);
    svg += "<circle cx=\"" + SvgNumber(x) + "\" cy=\"" + SvgNumber(y) + "\" r=\"" + SvgNumber(kRadius) +
           "\" fill=\"#168\"><title>" + SvgEscaped(p.label) + ": " + std::to_string(p.bytes_per_token) +
           " bytes a token, KL divergence " + SvgNumber(p.kld, "%.6g") + "</title></circle>\n";
    taken.push_back({x - kRadius, y - kRadius, 2 * kRadius, 2 * kRadius});
  }
  for (const QualityPoint& p : points) {
    const double x = axes.X(static_cast<double>(p.bytes_per_token)), y = axes.Y(p.kld);
    const Box box = PlaceLabel(x, y, p.label, taken);
    svg += SvgText(box.x, box.y + kLabelHeight - 3, "start", p.label);
    taken.push_back(box);
  }
  return svg;
}

}  // namespace

std::string QualityPlot(const std::string& title, const std::vector<QualityPoint>& points) {
  const Axes axes = AxesOf(points);
  return SvgPicture(title, Grid(axes) + Points(axes, points));
}

}  // namespace holdfast::cli
