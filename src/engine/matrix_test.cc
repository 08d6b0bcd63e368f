// The cube as it is printed: nothing is missing from it, and nothing in it is refused without a reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "holdfast/matrix.h"

namespace holdfast {
namespace {

TEST(Matrix, HasEveryCellOfTheListsAndEveryOneIsExactOrRefusedByTheConfigurationCheck) {
  const auto matrix = CheckMatrix();
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  std::set<std::string> operations, lines;
  for (const MatrixCell& cell : matrix->cells) {
    operations.insert(cell.operation);
    if (cell.operation != "rotate" && cell.operation != "center") {
      EXPECT_EQ(cell.refused, "");
    }
    lines.insert(std::string(LayoutName(cell.layout)) + "/" + std::string(StorageName(cell.storage)) + "/" +
                 std::string(CodecName(cell.codec)) + (cell.latent ? "/latent" : ""));
  }
  EXPECT_EQ(operations, (std::set<std::string>{"append", "attend", "batch", "rewind", "fork", "rotate",
                                               "center", "protect"}));
  const size_t cells = AllLayouts().size() * AllStorages().size() * AllCodecs().size() * 2;
  EXPECT_EQ(lines.size(), cells);
  EXPECT_EQ(matrix->cells.size(), cells * operations.size());
  EXPECT_EQ(matrix->pairs, static_cast<int>(AllCodecs().size() * (AllCodecs().size() - 1)));
  EXPECT_NE(std::find_if(matrix->cells.begin(), matrix->cells.end(),
                         [](const MatrixCell& cell) {
                           return cell.codec == CodecId::kF16 && cell.operation == "rotate" &&
                                  cell.refused.find("f16") != std::string::npos;
                         }),
            matrix->cells.end())
      << "float rows are not rotated, and the reason names the codec";
  for (const MatrixPair& pair : matrix->refused_pairs) EXPECT_FALSE(pair.refused.empty());
}

}  // namespace
}  // namespace holdfast
