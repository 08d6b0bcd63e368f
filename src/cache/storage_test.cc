#include "cache/storage.h"

#include <cstring>
#include <tuple>

#include <gtest/gtest.h>

#include "cache/storages/slot_table.h"
#include "cache/testing_cache.h"

namespace holdfast {
namespace {

using testing::Full;
using testing::SmallConfig;

std::unique_ptr<Storage> Make(const CacheConfig& config, int64_t max_slots,
                              std::shared_ptr<CacheMemory> memory) {
  return std::move(GetStorage(config.storage)
                       .create(config, MakeTileGeometry(config.layers[0]), max_slots, std::move(memory)))
      .value();
}

class StorageOfEveryKind : public ::testing::TestWithParam<StorageId> {
 protected:
  CacheConfig config_ = SmallConfig(Full(), GetParam());
  std::shared_ptr<CacheMemory> memory_ = std::make_shared<CacheMemory>();
};

TEST_P(StorageOfEveryKind, AllocatesWhatThePlanSaysAndGivesItBack) {
  const TileGeometry tiles = MakeTileGeometry(config_.layers[0]);
  for (const int64_t max_slots : {16, 80, 256, 272, 4096}) {
    const auto storage = Make(config_, max_slots, memory_);
    for (const int64_t slots : {1, 16, 17, 80, 256, 257, 272, 1000, 4096, 300, 257, 256, 20, 1, 0}) {
      if (slots > max_slots) continue;
      storage->Truncate(slots);
      ASSERT_TRUE(storage->MakeWritable(0, slots, OldRows::kKeep).ok());
      EXPECT_EQ(storage->bytes(), GetStorage(GetParam()).plan(config_, tiles, slots, max_slots)) << slots;
      EXPECT_EQ(memory_->allocated_bytes(), storage->bytes().total_bytes()) << slots;
    }
  }
  EXPECT_EQ(memory_->allocated_bytes(), 0);
}

TEST_P(StorageOfEveryKind, GivesEverySlotItsOwnBytes) {
  const int64_t slots = 700;
  const auto storage = Make(config_, 1024, memory_);
  ASSERT_TRUE(storage->MakeWritable(0, slots, OldRows::kKeep).ok());
  const TileGeometry tiles = MakeTileGeometry(config_.layers[0]);
  const auto for_every_tile = [&](auto f) {
    for (int64_t slot = 0; slot < slots; slot += 16) {
      const TileRun run = storage->Locate(slot);
      ASSERT_GT(run.end_slot, slot);
      for (int head = 0; head < tiles.kv_heads; ++head) {
        const int mark = static_cast<int>((slot / 16 * 4 + head * 2) % 251);
        f(run.k + head * run.k_head_stride_bytes, tiles.k_tile_bytes, mark);
        f(run.v + head * run.v_head_stride_bytes, tiles.v_tile_bytes, mark + 1);
      }
    }
  };
  for_every_tile([](std::byte* p, int64_t bytes, int mark) {
    for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(p[i], std::byte{0}) << "new rows are zero";
    std::memset(p, mark, static_cast<size_t>(bytes));
  });
  for_every_tile([](std::byte* p, int64_t bytes, int mark) {
    for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(p[i], static_cast<std::byte>(mark));
  });
}

TEST_P(StorageOfEveryKind, AForkIsUnchangedByWritesToItsParent) {
  const auto storage = Make(config_, 1024, memory_);
  ASSERT_TRUE(storage->MakeWritable(0, 40, OldRows::kKeep).ok());
  *storage->Locate(5).k = std::byte{7};
  *storage->Locate(33).k = std::byte{8};
  const auto fork = std::move(storage->Fork()).value();
  EXPECT_EQ(fork->bytes(), storage->bytes());
  ASSERT_TRUE(storage->MakeWritable(5, 6, OldRows::kKeep).ok());
  EXPECT_EQ(*storage->Locate(5).k, std::byte{7});
  *storage->Locate(5).k = std::byte{9};
  EXPECT_EQ(*fork->Locate(5).k, std::byte{7});
  EXPECT_EQ(*fork->Locate(33).k, std::byte{8});
  storage->Truncate(0);
  EXPECT_EQ(*fork->Locate(33).k, std::byte{8});
}

INSTANTIATE_TEST_SUITE_P(All, StorageOfEveryKind, ::testing::ValuesIn(AllStorages()),
                         [](const auto& param) { return std::string(StorageName(param.param)); });

TEST(PagedStorage, AForkTakesNoBlockUntilItWrites) {
  const CacheConfig config = SmallConfig(Full(), StorageId::kPaged);
  const auto memory = std::make_shared<CacheMemory>();
  const auto storage = Make(config, 1024, memory);
  ASSERT_TRUE(storage->MakeWritable(0, 48, OldRows::kKeep).ok());
  BlockPool& pool = memory->pool(MakeTileGeometry(config.layers[0]).BytesForRows(16));
  ASSERT_EQ(pool.live_blocks(), 3);
  const auto fork = std::move(storage->Fork()).value();
  EXPECT_EQ(pool.live_blocks(), 3);
  ASSERT_TRUE(fork->MakeWritable(47, 48, OldRows::kKeep).ok());
  EXPECT_EQ(pool.live_blocks(), 4);
  ASSERT_TRUE(storage->MakeWritable(47, 48, OldRows::kKeep).ok());  // its own again: nothing to copy
  EXPECT_EQ(pool.live_blocks(), 4);
}

TEST(PagedStorage, ADeadBlockIsReplacedByAnEmptyOneNotCopied) {
  const CacheConfig config = SmallConfig(Full(), StorageId::kPaged);
  const auto memory = std::make_shared<CacheMemory>();
  const auto storage = Make(config, 1024, memory);
  ASSERT_TRUE(storage->MakeWritable(0, 16, OldRows::kKeep).ok());
  *storage->Locate(0).k = std::byte{7};
  const auto fork = std::move(storage->Fork()).value();
  ASSERT_TRUE(fork->MakeWritable(0, 16, OldRows::kDead).ok());
  EXPECT_EQ(*fork->Locate(0).k, std::byte{0});
  EXPECT_EQ(*storage->Locate(0).k, std::byte{7});
}

TEST(SlotTable, KeepsItsEntriesWhereTheyAreAndItsBytesFollowFromItsSize) {
  const auto arena = std::make_shared<Arena>();
  SlotTable<int64_t> table(arena);
  int64_t* first = nullptr;
  for (int64_t i = 0; i < 3000; ++i) {
    ASSERT_TRUE(table.PushBack(i * 3).ok());
    if (i == 0) first = &table[0];
    ASSERT_EQ(table.bytes(), arena->allocated_bytes());
    ASSERT_EQ(table.bytes(), SlotTable<int64_t>::BytesFor(i + 1));
  }
  EXPECT_EQ(&table[0], first);
  for (int64_t i = 0; i < 3000; ++i) ASSERT_EQ(table[i], i * 3);
  for (const int64_t size : {2999, 56, 55, 24, 9, 8, 0}) {
    table.Resize(size);
    EXPECT_EQ(arena->allocated_bytes(), SlotTable<int64_t>::BytesFor(size)) << size;
  }
  EXPECT_EQ(SlotTable<int64_t>::BytesFor(0), 0);
  EXPECT_EQ(SlotTable<int64_t>::BytesFor(8), 64);
  EXPECT_EQ(SlotTable<int64_t>::BytesFor(9), 64 + 128);
}

TEST(StorageList, NamesGoBothWays) {
  for (const StorageId id : AllStorages()) EXPECT_EQ(ParseStorage(StorageName(id)).value(), id);
  EXPECT_EQ(ParseStorage("disk").status().message(), "storage: \"disk\" is not one of contiguous, paged");
}

}  // namespace
}  // namespace holdfast
