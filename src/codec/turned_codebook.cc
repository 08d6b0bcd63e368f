// The codebook of rows that are turned so that their largest magnitude is positive.
//
// With M the largest of d Gaussian magnitudes, of density f(m) = d 2 phi(m) (2 Phi(m) - 1)^(d - 1), the others are
// Gaussian within (-M, M): y = x / M has the density m phi(y m) / (2 Phi(m) - 1) given M = m, and one of d
// coordinates is y = 1.
#include <algorithm>
#include <array>
#include <cmath>

#include "codec/codebook.h"

namespace holdfast {
namespace {

constexpr int kFewestDims = 16;
constexpr int kParts = 1024;         // of (0, 1)
constexpr int kGaussianParts = 256;  // of 1
constexpr int kGaussianReach = 8;
constexpr int kGaussianSteps = kGaussianParts * kGaussianReach;
constexpr int kLargestStep = 8;  // of M, in parts
constexpr int kRounds = 2000;
constexpr double kSettled = 1e-10;
constexpr int kLowestTop = 100;
constexpr int kTopParts = 16;

// exp(-x^2 / 2) at multiples of 1 / kGaussianParts, and its integral from 0, as a part of the integral to infinity.
struct Gaussian {
  std::array<double, kGaussianSteps + 1> density;
  std::array<double, kGaussianSteps + 1> inside;

  Gaussian() {
    // exp(-(k + 1)^2 h^2 / 2) = exp(-k^2 h^2 / 2) * c^(2 k + 1) with c = exp(-h^2 / 2), by its series.
    const double x = -0.5 / (kGaussianParts * kGaussianParts);
    const double c = 1.0 + x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0)));
    double ratio = c;
    density[0] = 1.0;
    inside[0] = 0.0;
    for (size_t k = 1; k < density.size(); ++k) {
      density[k] = density[k - 1] * ratio;
      ratio *= c * c;
      inside[k] = inside[k - 1] + density[k - 1] + density[k];
    }
    const double whole = inside.back();
    for (double& part : inside) part /= whole;
  }
  double At(double parts) const {
    const auto k = std::min(static_cast<size_t>(parts), density.size() - 2);
    return density[k] + (parts - static_cast<double>(k)) * (density[k + 1] - density[k]);
  }
};

double PowerOf(double base, int exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) power *= base;
  }
  return power;
}

// Integrals over y from 0 of its density and of y, y^2 times it; y is as likely as -y but for the weight at 1.
class Turned {
 public:
  explicit Turned(int dim) {
    static const Gaussian gaussian;
    const int dims = std::max(dim, kFewestDims);
    std::array<double, kParts + 1> density = {};
    for (int k = kLargestStep; k <= kGaussianSteps; k += kLargestStep) {
      const double m = static_cast<double>(k) / kGaussianParts;
      const double inside = gaussian.inside[static_cast<size_t>(k)];
      const double among = gaussian.density[static_cast<size_t>(k)] * PowerOf(inside, dims - 2) * m * m;
      // exp(-x^2 / 2) over its integral within (-m, m), which is sqrt(2 pi) inside.
      const double others = among * m * (dims - 1) / kRootOfTwoPi;
      at_one_ += among * inside;
      for (int j = 0; j <= kParts; ++j) {
        density[static_cast<size_t>(j)] += others * gaussian.At(static_cast<double>(j) * k / kParts);
      }
    }
    for (size_t j = 1; j <= kParts; ++j) {
      const double y = static_cast<double>(j) / kParts;
      const double before = y - 1.0 / kParts;
      for (size_t n = 0; n < 3; ++n) {
        const double now = density[j] * PowerOf(y, static_cast<int>(n));
        const double then = density[j - 1] * PowerOf(before, static_cast<int>(n));
        sum_[n][j] = sum_[n][j - 1] + 0.5 / kParts * (now + then);
      }
    }
  }
  // Of y^n over [from, to), the weight at 1 with a cell that ends past it.
  double Moment(size_t n, double from, double to) const {
    const double one = to > 1.0 ? at_one_ : 0.0;
    return At(n, to) - At(n, from) + one;
  }

 private:
  static constexpr double kRootOfTwoPi = 2.5066282746310002;

  double At(size_t n, double y) const {
    const double place = std::clamp(std::fabs(y), 0.0, 1.0) * kParts;
    const auto j = std::min(static_cast<size_t>(place), static_cast<size_t>(kParts - 1));
    const double sum = sum_[n][j] + (place - static_cast<double>(j)) * (sum_[n][j + 1] - sum_[n][j]);
    return y < 0.0 && n != 1 ? -sum : sum;
  }

  std::array<std::array<double, kParts + 1>, 3> sum_ = {};
  double at_one_ = 0.0;
};

double CellEnd(const double* value, int values, int i) {
  return i + 1 == values ? 2.0 : 0.5 * (value[i] + value[i + 1]);
}

double ErrorOf(const Turned& turned, const double* value, int values) {
  double error = 0.0;
  double from = -1.0;
  for (int i = 0; i < values; ++i) {
    const double to = CellEnd(value, values, i);
    error += turned.Moment(2, from, to) - 2.0 * value[i] * turned.Moment(1, from, to) +
             value[i] * value[i] * turned.Moment(0, from, to);
    from = to;
  }
  return error;
}

}  // namespace

TurnedCodebook TurnedLloydMax(int bits, int dim) {
  const Turned turned(dim);
  TurnedCodebook book = {};
  book.levels = 1 << bits;
  for (int i = 0; i < book.levels; ++i) book.value[i] = 1.8 * i / (book.levels - 1) - 0.8;
  double moved = 1.0;
  for (int round = 0; round < kRounds && moved > kSettled; ++round) {
    moved = 0.0;
    double from = -1.0;
    for (int i = 0; i < book.levels; ++i) {
      const double to = CellEnd(book.value, book.levels, i);
      const double mean = turned.Moment(1, from, to) / turned.Moment(0, from, to);
      moved = std::max(moved, std::fabs(mean - book.value[i]));
      book.value[i] = mean;
      from = to;
    }
  }
  double least = 0.0;
  for (int top = kLowestTop * kTopParts; top <= kMostLevel * kTopParts; ++top) {
    const double step = book.value[book.levels - 1] * kTopParts / top;
    int level[16];
    double value[16];
    for (int i = 0; i < book.levels; ++i) {
      level[i] = static_cast<int>(std::floor(book.value[i] / step + 0.5));
      value[i] = step * level[i];
    }
    const double error = ErrorOf(turned, value, book.levels);
    if (least != 0.0 && error >= least) continue;
    least = error;
    std::copy_n(level, book.levels, book.level);
  }
  return book;
}

}  // namespace holdfast
