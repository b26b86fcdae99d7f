// Compares templates, dialogues and expressions with transformers and jinja2 (tests/golden/chat/make_chat.py).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/chat/jinja/template.h"
#include "engine/base/files.h"
#include "tests/support/source_dir.h"

namespace trainer::data::jinja {
namespace {

using Json = nlohmann::ordered_json;

const std::string kFolder = source_dir() + "/tests/golden/chat/";

const Json& golden() {
  static const Json json = Json::parse(read_file(kFolder + "chat.json", 1 << 20));
  return json;
}

/// [text, [[begin, end], …]] as in the golden file; null for an error.
Json rendered(const std::string& source, const Json& chat, bool prompt, const Json& tools) {
  Variables variables;
  for (const auto& [name, token] : golden()["tokens"].items()) variables.emplace_back(name, from_json(token));
  variables.emplace_back("messages", from_json(chat));
  variables.emplace_back("tools", from_json(tools));
  variables.emplace_back("documents", None{});
  variables.emplace_back("add_generation_prompt", prompt);
  try {
    const Template read(source);
    const Printed printed = read.render(variables);
    Json out = Json::array({printed.text});
    if (!read.has_generation()) return out;
    out.push_back(Json::array());
    for (const TextRange& range : printed.generated) out[1].push_back({range.begin, range.end});
    return out;
  } catch (const Failure&) {
    return nullptr;
  }
}

TEST(Golden, TemplatesRenderAsInTransformers) {
  for (const auto& [name, expected] : golden()["rendered"].items()) {
    const std::string source = read_file(kFolder + "templates/" + name + ".jinja", 1 << 20);
    size_t at = 0;
    for (const Json& chat : golden()["chats"]) {
      for (const bool prompt : {false, true})
        EXPECT_EQ(rendered(source, chat, prompt, nullptr), expected[at++]) << name << " " << chat.dump();
    }
    for (const Json& chat : golden()["tool_chats"])
      EXPECT_EQ(rendered(source, chat, true, golden()["tools"]), expected[at++]) << name << " " << chat.dump();
    EXPECT_EQ(at, expected.size());
  }
}

TEST(Golden, ExpressionsEvaluateAsInJinja) {
  for (const Json& expression : golden()["expressions"]) {
    const Json got = rendered(expression[0].get<std::string>(), golden()["chats"][0], false, nullptr);
    EXPECT_EQ(got.is_null() ? Json(nullptr) : got[0], expression[1]) << expression[0];
  }
}

}  // namespace
}  // namespace trainer::data::jinja
