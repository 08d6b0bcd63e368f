// Tables of inputs that must be refused, for tests only: each row lies in one place, and the error must say
// where.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "holdfast/status.h"

namespace holdfast::test {

template <typename Input>
struct Refused {
  std::string name;
  Input input;
  StatusCode code;
  std::vector<std::string> said;  // every one is part of the message
};

template <typename Input>
void PrintTo(const Refused<Input>& row, std::ostream* out) {
  *out << row.name;
}

template <typename Input>
std::string NameOfRow(const ::testing::TestParamInfo<Refused<Input>>& info) {
  return info.param.name;
}

template <typename Input>
void ExpectRefused(const Status& status, const Refused<Input>& row) {
  EXPECT_EQ(status.code(), row.code) << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
  for (const std::string& part : row.said) {
    EXPECT_NE(status.message().find(part), std::string::npos)
        << "wanted: " << part << "\nfound: " << status.message();
  }
}

}  // namespace holdfast::test
