#include "tokenizer/chat.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace holdfast {
namespace {

class ChatTemplate : public testing::TestWithParam<const char*> {};

// tools/make_tokenizer_expectations.py rendered the models' own Jinja templates.
TEST_P(ChatTemplate, IsRenderedAsJinjaDoes) {
  std::ifstream in(std::string(HOLDFAST_SOURCE_DIR) + "/tests/expectations/chat_" + GetParam() + ".json");
  const nlohmann::json expected = nlohmann::json::parse(in);
  const std::string source = expected["template"];
  const auto format = DetectChatFormat(source, ChatFormat::kNone);
  ASSERT_TRUE(format.ok());
  ASSERT_GE(expected["cases"].size(), 20u);
  for (const auto& c : expected["cases"]) {
    std::vector<ChatMessage> messages;
    for (const auto& m : c["messages"]) messages.push_back({m["role"], m["content"]});
    const auto text = FormatChat(*format, messages, c["add_generation_prompt"], DefaultSystemMessage(source));
    if (c["text"].is_null()) {
      EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument) << c;
    } else {
      ASSERT_TRUE(text.ok()) << c;
      EXPECT_EQ(*text, c["text"].get<std::string>()) << c;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ChatTemplate, testing::Values("smollm2", "gemma3"),
                         [](const auto& model) { return std::string(model.param); });

TEST(Chat, FormatIsTheTemplatesOrTheFamilys) {
  EXPECT_EQ(*DetectChatFormat("", ChatFormat::kGemma), ChatFormat::kGemma);
  EXPECT_EQ(*DetectChatFormat("", ChatFormat::kNone), ChatFormat::kNone);
  const auto unknown = DetectChatFormat("{{ '[INST]' + x }}", ChatFormat::kGemma);
  EXPECT_EQ(unknown.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(unknown.status().message().find("[INST]"), std::string::npos);
  EXPECT_FALSE(DetectChatFormat("<|im_start|><|im_sep|><|im_end|>", ChatFormat::kChatMl).ok());
}

TEST(Chat, DefaultSystemMessageIsTheTemplatesLiteral) {
  EXPECT_EQ(DefaultSystemMessage("{{ '<|im_start|>system\\nYou\\'re X.<|im_end|>\\n' }}"), "You're X.");
  EXPECT_EQ(DefaultSystemMessage("{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"
                                 "{{- '<|im_start|>system\\nYou are Y.<|im_end|>\\n' }}"),
            "You are Y.");
  EXPECT_EQ(DefaultSystemMessage("{{ '<|im_start|>' + message['role'] }}<|im_end|>"), "");
}

TEST(Chat, TheDefaultSystemMessageIsWrittenWhereOneIsGiven) {
  const ChatMessage message{"user", "Hi"};
  EXPECT_EQ(*FormatChat(ChatFormat::kChatMl, {&message, 1}, true),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(*FormatChat(ChatFormat::kChatMl, {&message, 1}, false, "Be kind."),
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
}

TEST(Chat, RefusesRolesTheFormatDoesNotHave) {
  const ChatMessage tool{"tool", "x"}, system{"system", "x"};
  EXPECT_EQ(FormatChat(ChatFormat::kChatMl, {&tool, 1}, true).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FormatChat(ChatFormat::kGemma, {&tool, 1}, true).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FormatChat(ChatFormat::kGemma, {&system, 1}, true).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FormatChat(ChatFormat::kNone, {&tool, 1}, true).status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace holdfast
