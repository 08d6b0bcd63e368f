#include "cache/layout.h"

#include <gtest/gtest.h>

#include "cache/testing_cache.h"

namespace holdfast {
namespace {

using testing::Full;
using testing::Window;

// Case 1 of the field (HF#37574): a window of 8 must not lose its oldest key at length 8.
TEST(WindowLayout, KeepsExactlyTheWindowWhenItFills) {
  const LayoutTraits& layout = GetLayout(LayoutId::kWindow);
  const LiveRange at8 = layout.live(Window(8), 8, 0);
  EXPECT_EQ(at8.begin, 0);
  EXPECT_EQ(at8.end, 8);
  EXPECT_TRUE(at8.everything());
  const LiveRange at9 = layout.live(Window(8), 9, 0);
  EXPECT_EQ(at9.begin, 1);
  EXPECT_EQ(at9.end, 9);
  EXPECT_FALSE(at9.everything());
}

TEST(WindowLayout, AQuerySeesItsWindowAndTheSinks) {
  const VisibleRange seen = GetLayout(LayoutId::kWindow).visible(Window(4, 2), 9);
  for (int64_t p = 0; p < 12; ++p) {
    EXPECT_EQ(seen.Sees(p), p == 0 || p == 1 || (p >= 6 && p <= 9)) << p;
  }
  const VisibleRange first = GetLayout(LayoutId::kWindow).visible(Window(4, 2), 0);
  EXPECT_TRUE(first.Sees(0));
  EXPECT_FALSE(first.Sees(1));
}

TEST(FullLayout, AQuerySeesEverythingUpToItself) {
  const VisibleRange seen = GetLayout(LayoutId::kFull).visible(Full(), 9);
  EXPECT_TRUE(seen.Sees(0));
  EXPECT_TRUE(seen.Sees(9));
  EXPECT_FALSE(seen.Sees(10));
  EXPECT_EQ(GetLayout(LayoutId::kFull).live(Full(), 100, 0).rows(), 100);
}

TEST(SlotMap, SlotsAgreeWithPositionsModulo16AndNoTwoStoredRowsShareOne) {
  for (const int64_t granule : {16, 32, 256}) {
    for (const int64_t window : {1, 4, 15, 16, 17, 100}) {
      for (const int64_t rewind : {0, 1, 16}) {
        for (const int64_t sinks : {0, 1, 16, 20}) {
          const LayoutConfig config = Window(window, sinks);
          const SlotMap slots = GetLayout(LayoutId::kWindow).slots(config, rewind, granule);
          ASSERT_EQ(slots.pinned_rows % granule, 0);
          ASSERT_EQ(slots.ring_rows % granule, 0);
          for (int64_t length = 1; length < 700; ++length) {
            const LiveRange live = GetLayout(LayoutId::kWindow).live(config, length, rewind);
            ASSERT_EQ(slots.SlotOf(length) % 16, length % 16);
            // No live row lies in the granule that the last row was written to, but for its own lap.
            ASSERT_GE(std::max(live.begin, slots.pinned_rows), slots.FirstStored(length)) << length;
            ASSERT_LT(slots.SlotOf(length - 1), slots.SlotsFor(length));
          }
        }
      }
    }
  }
}

TEST(WindowLayout, AnAppendOfMaxAppendKeepsAllThatItsFirstTokenSees) {
  for (const int64_t granule : {16, 64}) {
    for (const int64_t window : {1, 4, 33}) {
      for (const int64_t rewind : {0, 5, 16}) {
        const LayoutConfig config = Window(window, 3);
        const LayoutTraits& layout = GetLayout(LayoutId::kWindow);
        const SlotMap slots = layout.slots(config, rewind, granule);
        for (int64_t length = 0; length < 400; ++length) {
          const int64_t most = layout.max_append(config, slots, length);
          ASSERT_GT(most, rewind);
          const int64_t needed = std::max(layout.visible(config, length).begin, slots.pinned_rows);
          ASSERT_LE(slots.FirstStored(length + most), needed) << length;
          ASSERT_GT(slots.FirstStored(length + most + 1), needed)
              << length;  // and no smaller than it could be
        }
      }
    }
  }
}

TEST(LayoutList, NamesGoBothWays) {
  for (const LayoutId id : AllLayouts()) EXPECT_EQ(ParseLayout(LayoutName(id)).value(), id);
  EXPECT_EQ(ParseLayout("ring").status().message(), "layout: \"ring\" is not one of full, window");
}

}  // namespace
}  // namespace holdfast
