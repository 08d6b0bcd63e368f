// The order in which bytes are saved, against every order there is.
#include "engine/scheme_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace holdfast {
namespace {

using Places = std::vector<std::vector<CodecCost>>;

struct Total {
  int64_t bytes = 0;
  double kld = 0;
};

// After every number of steps, 0 included.
std::vector<Total> TotalsAlong(const Places& places) {
  std::vector<size_t> at(places.size(), 0);
  std::vector<Total> totals;
  const auto add = [&] {
    Total total;
    for (size_t i = 0; i < places.size(); ++i) {
      total.bytes += places[i][at[i]].bytes;
      total.kld += places[i][at[i]].kld;
    }
    totals.push_back(total);
  };
  add();
  for (const PathStep& step : CheapestSteps(places)) {
    EXPECT_EQ(step.saved, places[step.place][at[step.place]].bytes - places[step.place][step.codec].bytes);
    at[step.place] = step.codec;
    add();
  }
  return totals;
}

// The least divergence of all choices of at most so many bytes.
double Best(const Places& places, int64_t bytes, size_t place = 0) {
  if (place == places.size()) return bytes >= 0 ? 0.0 : std::numeric_limits<double>::infinity();
  double best = std::numeric_limits<double>::infinity();
  for (const CodecCost& c : places[place])
    best = std::min(best, c.kld + Best(places, bytes - c.bytes, place + 1));
  return best;
}

TEST(SchemePath, EveryPointIsTheBestChoiceOfItsBytes) {
  Places places;
  for (const double sensitivity : {1.0, 0.05, 7.0, 0.4}) {
    places.push_back({{128, 0},
                      {66, 0.001 * sensitivity},
                      {50, 0.004 * sensitivity},
                      {52, 0.006 * sensitivity},
                      {34, 0.05 * sensitivity},
                      {18, 0.8 * sensitivity}});
  }
  const std::vector<Total> totals = TotalsAlong(places);
  EXPECT_EQ(totals.size(), 4 * 4 + 1u) << "the codec that costs more and saves less is never taken";
  for (size_t i = 0; i < totals.size(); ++i) {
    EXPECT_NEAR(totals[i].kld, Best(places, totals[i].bytes), 1e-12) << "step " << i;
    if (i > 0) {
      EXPECT_LT(totals[i].bytes, totals[i - 1].bytes);
    }
  }
  EXPECT_EQ(totals.back().bytes, 4 * 18);
}

TEST(SchemePath, ACodecAboveTheLineBetweenItsNeighboursIsSkipped) {
  const std::vector<PathStep> steps = CheapestSteps({{{100, 0}, {60, 10.0}, {20, 12.0}}});
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].codec, 2u);
  EXPECT_DOUBLE_EQ(steps[0].slope, 12.0 / 80);
}

TEST(SchemePath, APlaceWhereNothingIsSavedStaysAsItIs) {
  EXPECT_TRUE(CheapestSteps({{{0, 0}, {0, 0.1}}, {}, {{0, 0}, {4, 0.0}}}).empty());
}

}  // namespace
}  // namespace holdfast
