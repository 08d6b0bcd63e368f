#include "cli/svg.h"

#include <cmath>
#include <cstdio>

namespace holdfast::cli {

std::string SvgNumber(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string SvgEscaped(const std::string& text) {
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

std::string SvgText(double x, double y, const std::string& anchor, const std::string& text,
                    const char* more) {
  return "<text x=\"" + SvgNumber(x) + "\" y=\"" + SvgNumber(y) + "\" text-anchor=\"" + anchor + "\"" + more +
         ">" + SvgEscaped(text) + "</text>\n";
}

std::string SvgLine(double x1, double y1, double x2, double y2, const char* colour) {
  return "<line x1=\"" + SvgNumber(x1) + "\" y1=\"" + SvgNumber(y1) + "\" x2=\"" + SvgNumber(x2) +
         "\" y2=\"" + SvgNumber(y2) + "\" stroke=\"" + colour + "\"/>\n";
}

std::string SvgAxes(const std::string& x_title, const std::string& y_title) {
  using P = PlotArea;
  return SvgLine(P::kLeft, P::kBottom, P::kRight, P::kBottom, "#333") +
         SvgLine(P::kLeft, P::kTop, P::kLeft, P::kBottom, "#333") +
         SvgText((P::kLeft + P::kRight) / 2, P::kBottom + 42, "middle", x_title) +
         SvgText(-(P::kTop + P::kBottom) / 2, 24, "middle", y_title, " transform=\"rotate(-90)\"");
}

std::string SvgPicture(const std::string& title, const std::string& content) {
  const std::string size = SvgNumber(PlotArea::kWidth, "%.0f") + " " + SvgNumber(PlotArea::kHeight, "%.0f");
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size +
         "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"#fff\"/>\n" +
         SvgText(PlotArea::kLeft, 28, "start", title, " font-size=\"15\"") + content + "</svg>\n";
}

double NiceStep(double range) {
  const double power = std::pow(10.0, std::floor(std::log10(range / 8)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power * 8 >= range) return factor * power;
  }
  return 10 * power;
}

}  // namespace holdfast::cli
