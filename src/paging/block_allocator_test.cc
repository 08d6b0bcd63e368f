#include "paging/block_allocator.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(BlockAllocator, HandsOutTheLowestFreeIdFirst) {
  BlockAllocator ids;
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(ids.Allocate().value(), static_cast<BlockId>(i));
  EXPECT_TRUE(ids.Release(static_cast<BlockId>(3)));
  EXPECT_TRUE(ids.Release(static_cast<BlockId>(1)));
  EXPECT_EQ(ids.live_blocks(), 3);
  EXPECT_EQ(ids.Allocate().value(), static_cast<BlockId>(1));
  EXPECT_EQ(ids.Allocate().value(), static_cast<BlockId>(3));
  EXPECT_EQ(ids.Allocate().value(), static_cast<BlockId>(5));
  EXPECT_EQ(ids.live_blocks(), 6);
}

TEST(BlockAllocator, ABlockIsFreeWhenItsLastOwnerReleasesIt) {
  BlockAllocator ids;
  const BlockId id = ids.Allocate().value();
  ids.AddRef(id);
  EXPECT_EQ(ids.refs(id), 2);
  EXPECT_FALSE(ids.Release(id));
  EXPECT_EQ(ids.live_blocks(), 1);
  EXPECT_TRUE(ids.Release(id));
  EXPECT_EQ(ids.refs(id), 0);
  EXPECT_EQ(ids.live_blocks(), 0);
}

TEST(BlockAllocator, AFullAllocatorNamesItsLimitAndWorksAgainAfterARelease) {
  BlockAllocator ids(2);
  const BlockId first = ids.Allocate().value();
  ASSERT_TRUE(ids.Allocate().ok());
  const Result<BlockId> third = ids.Allocate();
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(third.status().message().find("2 blocks"), std::string::npos);
  ids.Release(first);
  EXPECT_EQ(ids.Allocate().value(), first);
}

TEST(BlockAllocator, NoBlockHasNoOwners) {
  BlockAllocator ids;
  EXPECT_EQ(ids.refs(BlockId::kNone), 0);
  EXPECT_EQ(ids.refs(static_cast<BlockId>(7)), 0);
}

}  // namespace
}  // namespace holdfast
