#include "server/api_keys.h"

#include <gtest/gtest.h>

namespace holdfast::server {
namespace {

TEST(ApiKeys, WithoutKeysEverybodyIsTheOperatorOfOneTenant) {
  const ApiKeys keys = ApiKeys::Create({}).value();
  EXPECT_TRUE(keys.open());
  for (const char* header : {"", "Bearer x", "nonsense"}) {
    const auto tenant = keys.Find(header);
    ASSERT_TRUE(tenant.has_value());
    EXPECT_TRUE(tenant->is_operator && tenant->name_space.empty());
  }
}

TEST(ApiKeys, EachKeyIsATenantAndTheFirstTheOperator) {
  const ApiKeys keys = ApiKeys::Create({"operator-key", "second"}).value();
  const auto first = keys.Find("Bearer operator-key"), second = keys.Find("bearer   second ");
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_TRUE(first->is_operator);
  EXPECT_FALSE(second->is_operator);
  EXPECT_NE(first->name_space, second->name_space);
  EXPECT_EQ(second->name_space, keys.Find("Bearer second")->name_space);
  EXPECT_EQ(second->name_space.size(), 32u);
  EXPECT_EQ(second->name_space,
            ApiKeys::Create({"other", "second"}).value().Find("Bearer second")->name_space)
      << "a tenant keeps its namespace when other keys change";
}

TEST(ApiKeys, ABrowserMaySendTheKeyAsAPassword) {
  const ApiKeys keys = ApiKeys::Create({"key"}).value();
  EXPECT_TRUE(keys.Find("Basic dXNlcjprZXk=").has_value());  // user:key
  EXPECT_TRUE(keys.Find("Basic OmtleQ==").has_value());      // :key
  EXPECT_FALSE(keys.Find("Basic a2V5").has_value());         // key
  EXPECT_FALSE(keys.Find("Basic dXNlcjprZXk").has_value());
  EXPECT_FALSE(keys.Find("Basic ====").has_value());
  EXPECT_FALSE(keys.Find("Basic !!!!").has_value());
}

TEST(ApiKeys, AnythingElseIsNoKey) {
  const ApiKeys keys = ApiKeys::Create({"key", "longer-key"}).value();
  for (const char* header : {"", "Bearer", "Bearer ", "Bearer ke", "Bearer keyy", "key", "Token key",
                             "Bearer longer", "Basic Og=="})
    EXPECT_FALSE(keys.Find(header).has_value()) << header;
}

TEST(ApiKeys, KeysThatCannotBeSentAreRefusedAndNotPrinted) {
  for (const std::vector<std::string>& bad :
       {std::vector<std::string>{""}, {"has blank"}, {"tab\t"}, {"caf\xc3\xa9"}, {"twice", "twice"}}) {
    const auto keys = ApiKeys::Create(bad);
    ASSERT_FALSE(keys.ok());
    EXPECT_EQ(keys.status().code(), StatusCode::kInvalidArgument);
    if (!bad.back().empty()) {
      EXPECT_EQ(keys.status().message().find(bad.back()), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace holdfast::server
