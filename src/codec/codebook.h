// Lloyd-Max codebooks for a coordinate of a rotated row.
//
// A random rotation makes a row a uniform point of the sphere, whatever the row was. A coordinate of a uniform
// point of the unit sphere in d dimensions has the density (1 - x^2)^((d - 3) / 2), up to a factor; scaled by
// sqrt(d) it has unit variance and nears a Gaussian as d grows. Its Lloyd-Max quantiser (S. Lloyd, "Least
// squares quantization in PCM", 1982; J. Max, "Quantizing for minimum distortion", 1960) is the fixed set of
// values with the least mean squared error: each is the mean of what is nearest to it.
#pragma once

namespace holdfast {

inline constexpr int kMostCodebookBits = 6;

// The density is symmetric, and so is its codebook: these are its positive values, ascending.
struct Codebook {
  int values;  // 2^(bits - 1)
  double value[1 << (kMostCodebookBits - 1)];
  double mean_squared_error;  // of a variable of variance 1
};

// The codebook of 2^bits values for coordinates of unit variance of rows of `dim`. Rows of fewer than 4 dims,
// whose density grows without bound at its ends, take the codebook of 4.
//
// Computed from IEEE additions, products, quotients and square roots alone, so that every machine gets the same
// bits: what is derived from it is part of a format. Takes milliseconds, holds no state, any thread.
// REQUIRES 1 <= bits <= kMostCodebookBits, 1 <= dim.
Codebook LloydMax(int bits, int dim);

// The codebook in whole steps, for integer dots: value[i] is close to step * level[i], level[i] ascending and at
// most kMostLevel, with the step for which quantising to these values leaves the least error.
inline constexpr int kMostLevel = 127;
struct IntegerCodebook {
  int levels;
  int level[1 << (kMostCodebookBits - 1)];
  double step;
  double mean_squared_error;  // of a variable of variance 1, quantised to step * level
};
IntegerCodebook RoundToLevels(const Codebook& book, int dim);

// A codebook of both signs, for rows whose scale may have either: the row is turned so that its largest magnitude is
// positive, and only the positive half has to reach that far.
//
// The Lloyd-Max codebook of 2^bits values for the coordinates of a Gaussian row of `dim` over their largest magnitude,
// signed so that that one is 1; errors count by the square of that magnitude, as they do in the row. (Of a uniform
// point of the sphere the same: its norm cancels.) Rows of fewer than 16 dims take the codebook of 16. Rounded to
// levels of -127..127 as RoundToLevels does, ascending. REQUIRES 2 <= bits <= 4. Otherwise as LloydMax.
struct TurnedCodebook {
  int levels;
  int level[16];
  double value[16];
};
TurnedCodebook TurnedLloydMax(int bits, int dim);

}  // namespace holdfast
