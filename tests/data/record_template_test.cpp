#include "data/readers/record_template.h"

#include <gtest/gtest.h>

#include "tests/data/support.h"

namespace trainer::data {
namespace {

const Record kRecord{{{"sentence", "It rains."}, {"label", "wet"}}, "data.csv", 7};

std::string render(const std::string& text) {
  return Template(text, "data.source").render(kRecord);
}

TEST(Template, AcceptsAColumnOrATextWithColumns) {
  EXPECT_EQ(render("sentence"), "It rains.");
  EXPECT_EQ(render("{sentence}"), "It rains.");
  EXPECT_EQ(render("weather: {sentence} ({label}) {{x}}"), "weather: It rains. (wet) {x}");
}

TEST(Template, ErrorListsTheColumns) {
  std::string message = error_of<InputError>([] { render("{sentense}"); });
  contains(message, "data.csv:7: no column 'sentense'");
  contains(message, "did you mean 'sentence'?");
  contains(message, "sentence, label");
}

TEST(Template, RejectsMalformedTemplates) {
  for (const char* text : {"", "{", "}", "{a", "a}", "{}", "{a{b}}", "{{no column}}"}) {
    error_of<ConfigError>([&] { Template(text, "data.source"); });
  }
}

}  // namespace
}  // namespace trainer::data
