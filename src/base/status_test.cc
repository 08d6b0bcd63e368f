#include "holdfast/status.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "base/checked.h"
#include "base/status_macros.h"

namespace holdfast {
namespace {

TEST(StatusTest, AStatusIsOkUntilItSaysWhyNot) {
  EXPECT_TRUE(Status().ok());
  EXPECT_TRUE(OkStatus().ok());
  const Status failed = OutOfRange("append: position 5000, the limit is 4096");
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(failed.code(), StatusCode::kOutOfRange);
  EXPECT_EQ(failed.message(), "append: position 5000, the limit is 4096");
}

TEST(StatusTest, EveryCodeHasItsOwnNameAndMaker) {
  const std::pair<Status, std::string_view> made[] = {
      {InvalidArgument("m"), "INVALID_ARGUMENT"},
      {OutOfRange("m"), "OUT_OF_RANGE"},
      {NotFound("m"), "NOT_FOUND"},
      {ResourceExhausted("m"), "RESOURCE_EXHAUSTED"},
      {FailedPrecondition("m"), "FAILED_PRECONDITION"},
      {Unimplemented("m"), "UNIMPLEMENTED"},
      {DataLoss("m"), "DATA_LOSS"},
      {IoError("m"), "IO_ERROR"},
      {Cancelled("m"), "CANCELLED"},
      {Internal("m"), "INTERNAL"},
  };
  int code = 1;
  for (const auto& [status, name] : made) {
    EXPECT_EQ(static_cast<int>(status.code()), code++);  // the values are stable
    EXPECT_EQ(StatusCodeName(status.code()), name);
  }
  EXPECT_EQ(StatusCodeName(StatusCode::kOk), "OK");
}

Result<std::unique_ptr<int>> MakeEven(int value) {
  if (value % 2 != 0) return InvalidArgument("make: " + std::to_string(value) + " is odd");
  return std::make_unique<int>(value);
}

Status UseTwice(int first, int second, int* sum) {
  HF_ASSIGN_OR_RETURN(const auto a, MakeEven(first));
  HF_ASSIGN_OR_RETURN(const auto b, MakeEven(second));
  *sum = *a + *b;
  return OkStatus();
}

Status UseThroughStatus(int first, int* sum) {
  HF_RETURN_IF_ERROR(UseTwice(first, 2, sum));
  *sum += 100;
  return OkStatus();
}

TEST(StatusTest, MacrosReturnTheFirstFailureAndElseGoOn) {
  int sum = 0;
  EXPECT_TRUE(UseThroughStatus(4, &sum).ok());
  EXPECT_EQ(sum, 106);
  EXPECT_EQ(UseThroughStatus(3, &sum).message(), "make: 3 is odd");
  EXPECT_EQ(UseTwice(2, 5, &sum).message(), "make: 5 is odd");
  EXPECT_EQ(sum, 106);
}

TEST(CheckedTest, OverflowIsAnAnswer) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(CheckedAdd(kMax - 1, 1), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedAdd(-kMax, -2), std::nullopt);
  EXPECT_EQ(CheckedMul(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_EQ(CheckedMul(int64_t{1} << 32, int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(CheckedMul(-kMax, 2), std::nullopt);
  EXPECT_EQ(CeilDiv(0, 64), 0);
  EXPECT_EQ(CeilDiv(65, 64), 2);
  EXPECT_EQ(RoundUp(64, 64), 64);
  EXPECT_EQ(RoundUp(65, 64), 128);
}

}  // namespace
}  // namespace holdfast
