#include "cli/quality_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace holdfast::cli {
namespace {

constexpr double kWidth = 900, kHeight = 560;
constexpr double kLeft = 80, kRight = 870, kTop = 50, kBottom = 500;
constexpr double kLabelHeight = 14, kLetterWidth = 6.8, kRadius = 4;

std::string Number(double value, const char* format = "%.1f") {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string Text(double x, double y, const std::string& anchor, const std::string& text,
                 const char* more = "") {
  return "<text x=\"" + Number(x) + "\" y=\"" + Number(y) + "\" text-anchor=\"" + anchor + "\"" + more + ">" +
         Escaped(text) + "</text>\n";
}

std::string Line(double x1, double y1, double x2, double y2, const char* colour) {
  return "<line x1=\"" + Number(x1) + "\" y1=\"" + Number(y1) + "\" x2=\"" + Number(x2) + "\" y2=\"" +
         Number(y2) + "\" stroke=\"" + colour + "\"/>\n";
}

// 1, 2 or 5 times a power of ten, so that about eight of them make `range`.
double NiceStep(double range) {
  const double power = std::pow(10.0, std::floor(std::log10(range / 8)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power * 8 >= range) return factor * power;
  }
  return 10 * power;
}

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
      svg += Line(kLeft, between, kRight, between, "#f3f3f3");
    }
    const double y = axes.Y(std::pow(10.0, decade));
    svg += Line(kLeft, y, kRight, y, "#ddd") + Text(kLeft - 8, y + 4, "end", "1e" + std::to_string(decade));
  }
  const double step = NiceStep(axes.largest_bytes);
  for (double bytes = 0; bytes <= axes.largest_bytes; bytes += step) {
    svg += Line(axes.X(bytes), kTop, axes.X(bytes), kBottom, "#eee") +
           Text(axes.X(bytes), kBottom + 18, "middle", Number(bytes, "%.0f"));
  }
  svg += Line(kLeft, kBottom, kRight, kBottom, "#333") + Line(kLeft, kTop, kLeft, kBottom, "#333");
  svg += Text((kLeft + kRight) / 2, kBottom + 42, "middle", "bytes a token");
  svg += Text(-(kTop + kBottom) / 2, 24, "middle", "mean KL divergence from f16 (nats)",
              " transform=\"rotate(-90)\"");
  return svg;
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
    line += Number(axes.X(static_cast<double>(p.bytes_per_token))) + "," + Number(axes.Y(p.kld)) + " ";
  }
  svg += "<polyline points=\"" + line + "\" fill=\"none\" stroke=\"#9bc\" stroke-width=\"1.5\"/>\n";
  std::vector<Box> taken;
  for (const QualityPoint& p : points) {
    const double x = axes.X(static_cast<double>(p.bytes_per_token)), y = axes.Y(p.kld);
    svg += "<circle cx=\"" + Number(x) + "\" cy=\"" + Number(y) + "\" r=\"" + Number(kRadius) +
           "\" fill=\"#168\"><title>" + Escaped(p.label) + ": " + std::to_string(p.bytes_per_token) +
           " bytes a token, KL divergence " + Number(p.kld, "%.6g") + "</title></circle>\n";
    taken.push_back({x - kRadius, y - kRadius, 2 * kRadius, 2 * kRadius});
  }
  for (const QualityPoint& p : points) {
    const double x = axes.X(static_cast<double>(p.bytes_per_token)), y = axes.Y(p.kld);
    const Box box = PlaceLabel(x, y, p.label, taken);
    svg += Text(box.x, box.y + kLabelHeight - 3, "start", p.label);
    taken.push_back(box);
  }
  return svg;
}

}  // namespace

std::string QualityPlot(const std::string& title, const std::vector<QualityPoint>& points) {
  const Axes axes = AxesOf(points);
  const std::string size = Number(kWidth, "%.0f") + " " + Number(kHeight, "%.0f");
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size +
         "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"#fff\"/>\n" +
         Text(kLeft, 28, "start", title, " font-size=\"15\"") + Grid(axes) + Points(axes, points) +
         "</svg>\n";
}

}  // namespace holdfast::cli
