// Which pages a token visits, by hand.
#include "attention/page_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "simd/testing_effort.h"

namespace holdfast {
namespace {

// The choice for `heads` heads of one KV head by their bounds of every page seen.
std::vector<int64_t> Choose(const VisibleRange& visible, int64_t sparse_pages,
                            const std::vector<std::vector<float>>& bounds, Isa isa = ActiveIsa()) {
  AttentionCall call;
  call.shape = {16, 16, false};
  call.q_heads = static_cast<int>(bounds.size());
  call.kv_heads = 1;
  call.sparse_pages = sparse_pages;
  const int64_t stride = PageChooser::Stride(PagesSeen(visible));
  std::vector<float> all(bounds.size() * static_cast<size_t>(stride), -7.0f);
  for (size_t h = 0; h < bounds.size(); ++h) {
    std::copy(bounds[h].begin(), bounds[h].end(), all.begin() + static_cast<int64_t>(h) * stride);
  }
  std::vector<int64_t> pages(static_cast<size_t>(sparse_pages));
  PageChooser(call, isa).Choose(visible, all.data(), stride, pages.data());
  return pages;
}

TEST(PageChoice, TakesTheFirstTheLastFourAndTheBestBetween) {
  //                                    0  1  2  3  4  5  6  7  8  9 10 11
  const std::vector<float> bounds = {-9, 1, 5, 2, 4, 3, 1, 6, -9, -9, -9, -9};
  for (const Isa isa : IsasToVisit()) {
    EXPECT_EQ(Choose({0, 12 * 16, 0}, 8, {bounds}, isa), (std::vector<int64_t>{0, 2, 4, 7, 8, 9, 10, 11}));
    EXPECT_EQ(Choose({0, 12 * 16, 0}, 9, {bounds}, isa), (std::vector<int64_t>{0, 2, 4, 5, 7, 8, 9, 10, 11}));
  }
}

TEST(PageChoice, PrefersTheLowerPositionAmongEquals) {
  const std::vector<float> bounds = {0, 1, 2, 1, 1, 2, 1, 1, 0, 0, 0, 0};
  for (const Isa isa : IsasToVisit()) {
    EXPECT_EQ(Choose({0, 12 * 16, 0}, 9, {bounds}, isa), (std::vector<int64_t>{0, 1, 2, 3, 5, 8, 9, 10, 11}));
    EXPECT_EQ(Choose({0, 12 * 16, 0}, 8, {std::vector<float>(12, -3.5f)}, isa),
              (std::vector<int64_t>{0, 1, 2, 3, 8, 9, 10, 11}));
  }
}

TEST(PageChoice, EveryHeadsBestPageIsAheadHoweverSmallItsScores) {
  //                                   0   1  2  3  4  5  6  7  8  9 10 11
  const std::vector<float> large = {0, 100, 90, 1, 80, 1, 1, 1, 0, 0, 0, 0};
  const std::vector<float> small = {0, 0, 0, 0.5f, 0, 0, 0.9f, 1, 0, 0, 0, 0};
  EXPECT_EQ(Choose({0, 12 * 16, 0}, 8, {large, small}), (std::vector<int64_t>{0, 1, 6, 7, 8, 9, 10, 11}));
}

TEST(PageChoice, CountsFromTheFirstPageSeenAndMeasuresAgainstPagesSeenWholeOnly) {
  // Rows before 40 are protected: page 2 is seen in part, and what its bounds say of rows unseen does not count.
  const std::vector<float> bounds = {1000, 1, 5, 2, 4, 3, 1, 6, 0, 0, 0, 0};
  const VisibleRange visible = {40, 2 * 16 + 12 * 16 - 3, 0};
  EXPECT_EQ(PagesSeen(visible), 12);
  EXPECT_EQ(Choose(visible, 8, {bounds}), (std::vector<int64_t>{2, 4, 6, 9, 10, 11, 12, 13}));
  // Did the first page count, no page would be near the first head's best one.
  const std::vector<float> other = {0, 6, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0};
  EXPECT_EQ(Choose(visible, 8, {bounds, other}), (std::vector<int64_t>{2, 3, 4, 9, 10, 11, 12, 13}));
  const VisibleRange gathered = GatheredRange(visible, 8);
  EXPECT_EQ(gathered.begin, 8);
  EXPECT_EQ(gathered.end, 8 * 16 - 3);
}

TEST(PageChoice, IsTheSortedOneForManyRandomPages) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    const auto seen = static_cast<int64_t>(20 + random() % 3000);
    const auto most = static_cast<int64_t>(8 + random() % static_cast<uint64_t>(seen - 8));
    std::vector<float> bounds(static_cast<size_t>(seen));
    // Few values, so that many are equal, of any sign and size.
    for (float& x : bounds)
      x = std::ldexp(static_cast<float>(random() % 7) - 3.0f, static_cast<int>(random() % 5) - 20);
    std::vector<int64_t> order(static_cast<size_t>(seen - kCertainPages));
    std::iota(order.begin(), order.end(), 1);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return bounds[static_cast<size_t>(a)] > bounds[static_cast<size_t>(b)];
    });
    std::vector<int64_t> expected = {0};
    expected.insert(expected.end(), order.begin(), order.begin() + (most - kCertainPages));
    for (int64_t p = seen - kRecentPages; p < seen; ++p) expected.push_back(p);
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(Choose({0, seen * 16, 0}, most, {bounds}), expected) << seen << " pages, " << most << " taken";
  }
}

TEST(PageChoice, TakesAsManyPagesWhateverNumbersTheBoundsAre) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> bounds(300, bad);
    EXPECT_EQ(Choose({0, 300 * 16, 0}, 20, {bounds}).size(), 20u);
    for (size_t p = 0; p < bounds.size(); p += 2) bounds[p] = 1.0f;
    const std::vector<int64_t> pages = Choose({0, 300 * 16, 0}, 20, {bounds});
    for (size_t i = 1; i < pages.size(); ++i) EXPECT_LT(pages[i - 1], pages[i]) << bad;
    EXPECT_EQ(pages.back(), 299) << bad;
  }
}

TEST(PageChoice, IsMadeWhereATokenSeesMorePagesThanItMay) {
  EXPECT_FALSE(ChoosesPages({0, 128, 0}, 8));
  EXPECT_TRUE(ChoosesPages({0, 129, 0}, 8));
  EXPECT_FALSE(ChoosesPages({0, 1 << 20, 0}, 0));
  EXPECT_FALSE(ChoosesPages({300, 300, 0}, 8));
}

}  // namespace
}  // namespace holdfast
