#include "engine/text_stream.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(TextStream, PassesTextOnAtOnceWhereNoStopStringCanBegin) {
  TextStream s({"END"});
  EXPECT_EQ(s.Add("hello "), "hello ");
  EXPECT_EQ(s.Add("world"), "world");
  EXPECT_EQ(s.Finish(), "");
  EXPECT_FALSE(s.stopped());
}

TEST(TextStream, AStopStringAcrossPiecesIsCutAndNothingAfterItIsGivenOut) {
  TextStream s({"END"});
  EXPECT_EQ(s.Add("a E"), "a ");
  EXPECT_EQ(s.Add("N"), "");
  EXPECT_EQ(s.Add("D tail"), "");
  EXPECT_TRUE(s.stopped());
  EXPECT_EQ(s.Add("more"), "");
  EXPECT_EQ(s.Finish(), "");
}

TEST(TextStream, HeldTextIsGivenOutWhenItTurnsOutNotToStop) {
  TextStream s({"END"});
  EXPECT_EQ(s.Add("EN"), "");
  EXPECT_EQ(s.Add("D"), "");
  TextStream t({"END"});
  EXPECT_EQ(t.Add("EN"), "");
  EXPECT_EQ(t.Add("T"), "ENT");
  TextStream u({"END"});
  EXPECT_EQ(u.Add("xEN"), "x");
  EXPECT_EQ(u.Finish(), "EN");
}

TEST(TextStream, TheEarliestOfSeveralStopStringsWins) {
  TextStream s({"bb", "a\n"});
  EXPECT_EQ(s.Add("xa\nbb"), "x");
  EXPECT_TRUE(s.stopped());
}

TEST(TextStream, CharactersSplitOverPiecesStayWhole) {
  TextStream s({"\xe2\x82\xad"});  // shares its first bytes with the euro sign
  EXPECT_EQ(s.Add("\xe2\x82"), "");
  EXPECT_EQ(s.Add("\xac!"), "\xe2\x82\xac!");
}

TEST(TextStream, EmptyStopStringsAreIgnored) {
  TextStream s({""});
  EXPECT_EQ(s.Add("x"), "x");
  EXPECT_FALSE(s.stopped());
}

}  // namespace
}  // namespace holdfast
