// The few shapes that the plots are made of.
#pragma once

#include <string>

namespace holdfast::cli {

// A rectangle to draw in, inside a picture of kWidth x kHeight: values to the right and upwards.
struct PlotArea {
  static constexpr double kWidth = 900, kHeight = 560;
  static constexpr double kLeft = 80, kRight = 870, kTop = 50, kBottom = 500;
};

std::string SvgNumber(double value, const char* format = "%.1f");
std::string SvgEscaped(const std::string& text);
// anchor: start, middle or end. more: further attributes, with a space before each.
std::string SvgText(double x, double y, const std::string& anchor, const std::string& text,
                    const char* more = "");
std::string SvgLine(double x1, double y1, double x2, double y2, const char* colour);
// Both axes and what they are of.
std::string SvgAxes(const std::string& x_title, const std::string& y_title);
// The whole picture: a self-contained file.
std::string SvgPicture(const std::string& title, const std::string& content);

// 1, 2 or 5 times a power of ten, so that about eight of them make `range`.
double NiceStep(double range);

}  // namespace holdfast::cli
