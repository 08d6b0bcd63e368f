#include "codec/codebook.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace holdfast {
namespace {

constexpr int kSteps = 4096;        // of the positive half of the density
constexpr double kReach = 9.0;      // what lies beyond is below 1e-17 of the whole
constexpr int kFewestDims = 4;      // of a density that ends in 0
constexpr int kMostRounds = 20000;  // of Lloyd's iteration; a few hundred are what 4 bits take
constexpr double kSettled = 1e-12;  // a round that moves every value by less ends it
// Steps that are tried put the top value at these parts of a level; low tops would waste a byte's range.
constexpr int kTopParts = 16;
constexpr int kLowestTop = 64 * kTopParts;

double PowerOf(double base, int exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) power *= base;
  }
  return power;
}

// The density's integrals from 0, of the density and of x times it: what cells and their means are taken from.
class Marginal {
 public:
  explicit Marginal(int dim) {
    const int dims = std::max(dim, kFewestDims);
    const double end = std::sqrt(static_cast<double>(dims));
    reach_ = std::min(end, kReach);
    step_ = reach_ / kSteps;
    double before[2] = {0.0, 0.0};
    for (int i = 0; i <= kSteps; ++i) {
      const double x = i * step_;
      const double inside = std::max(0.0, 1.0 - x * x / dims);
      const int odd = (dims - 3) & 1;
      const double density = PowerOf(inside, (dims - 3) / 2) * (odd != 0 ? std::sqrt(inside) : 1.0);
      const double now[2] = {density, density * x};
      for (size_t k = 0; k < 2; ++k) {
        const auto at = static_cast<size_t>(i);
        sum_[k][at] = i == 0 ? 0.0 : sum_[k][at - 1] + 0.5 * step_ * (before[k] + now[k]);
        before[k] = now[k];
      }
      second_ += density * x * x * step_;
    }
  }
  double reach() const { return reach_; }
  double mass(double from, double to) const { return At(0, to) - At(0, from); }
  double moment(double from, double to) const { return At(1, to) - At(1, from); }
  double total() const { return sum_[0][kSteps]; }
  double second_moment() const { return second_; }

 private:
  double At(size_t k, double x) const {
    const double place = std::clamp(x / step_, 0.0, static_cast<double>(kSteps));
    const int i = std::min(static_cast<int>(place), kSteps - 1);
    const auto at = static_cast<size_t>(i);
    return sum_[k][at] + (place - i) * (sum_[k][at + 1] - sum_[k][at]);
  }

  std::array<std::array<double, kSteps + 1>, 2> sum_ = {};
  double reach_ = 0.0;
  double step_ = 0.0;
  double second_ = 0.0;
};

// Cell i is what is nearer to value i than to another: [its lower end, the next one's).
double CellEnd(const double* value, int values, int i, double reach) {
  return i + 1 == values ? reach : std::min(reach, 0.5 * (value[i] + value[i + 1]));
}

double ErrorOf(const Marginal& marginal, const double* value, int values) {
  double error = marginal.second_moment();
  double from = 0.0;
  for (int i = 0; i < values; ++i) {
    const double to = CellEnd(value, values, i, marginal.reach());
    error += value[i] * (value[i] * marginal.mass(from, to) - 2.0 * marginal.moment(from, to));
    from = to;
  }
  return error / marginal.total();
}

}  // namespace

Codebook LloydMax(int bits, int dim) {
  const Marginal marginal(dim);
  Codebook book = {};
  book.values = 1 << (bits - 1);
  const double widest = std::min(marginal.reach(), 3.0);
  for (int i = 0; i < book.values; ++i) book.value[i] = widest * (i + 0.5) / book.values;
  double moved = 1.0;
  for (int round = 0; round < kMostRounds && moved > kSettled; ++round) {
    moved = 0.0;
    double from = 0.0;
    for (int i = 0; i < book.values; ++i) {
      const double to = CellEnd(book.value, book.values, i, marginal.reach());
      const double mean = marginal.moment(from, to) / marginal.mass(from, to);
      moved = std::max(moved, std::fabs(mean - book.value[i]));
      book.value[i] = mean;
      from = to;
    }
  }
  book.mean_squared_error = ErrorOf(marginal, book.value, book.values);
  return book;
}

IntegerCodebook RoundToLevels(const Codebook& book, int dim) {
  const Marginal marginal(dim);
  IntegerCodebook best = {};
  for (int top = kLowestTop; top <= kMostLevel * kTopParts; ++top) {
    IntegerCodebook tried = {};
    tried.levels = book.values;
    tried.step = book.value[book.values - 1] * kTopParts / top;
    double value[1 << (kMostCodebookBits - 1)];
    for (int i = 0; i < book.values; ++i) {
      tried.level[i] = static_cast<int>(std::floor(book.value[i] / tried.step + 0.5));
      value[i] = tried.step * tried.level[i];
    }
    tried.mean_squared_error = ErrorOf(marginal, value, book.values);
    if (best.levels == 0 || tried.mean_squared_error < best.mean_squared_error) best = tried;
  }
  return best;
}

}  // namespace holdfast
