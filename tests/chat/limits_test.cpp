// Templates that are invalid, unsupported, or never terminate.
#include <gtest/gtest.h>

#include <time.h>

#include <filesystem>

#include <fmt/format.h>

#include "data/chat/jinja/template.h"
#include "engine/base/files.h"
#include "tests/support/source_dir.h"

namespace trainer::data::jinja {
namespace {

namespace fs = std::filesystem;

std::string outcome(const std::string& source) {
  Limits limits;
  limits.steps = 1'000'000;
  limits.bytes = 16 << 20;
  try {
    Template(source).render({{"messages", make_sequence({})}}, limits);
  } catch (const Failure& error) {
    return fmt::format("{}: {}", error.line(), error.what());
  }
  return "none";
}

timespec thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now;
}

/// tests/chat/bad/NAME.jinja, whose first line is a comment with the message: {# LINE: message #}.
TEST(Limits, BadTemplatesAreReportedWithLineAndReason) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(source_dir() + "/tests/chat/bad")) {
    const std::string source = read_file(entry.path(), 1 << 20);
    const std::string expected = source.substr(3, source.find(" #}\n") - 3);
    EXPECT_EQ(outcome(source), expected) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 20U);
}

TEST(Limits, NestingIsBounded) {
  const auto times = [](const std::string& text, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text;
    return out;
  };
  for (const std::string& source :
       {"{{ " + times("(", 5000) + "1" + times(")", 5000) + " }}", "{{ " + times("[", 5000) + times("]", 5000) + " }}",
        "{{ " + times("not ", 5000) + "1 }}", "{{ " + times("-", 5000) + "1 }}", "{{ 1" + times("+1", 5000) + " }}",
        "{{ x" + times(".a", 5000) + " }}", "{{ x" + times("|trim", 5000) + " }}",
        times("{% if 1 %}", 5000) + times("{% endif %}", 5000), "{{ 1" + times(" if 1 else 1", 5000) + " }}"})
    EXPECT_NE(outcome(source).find("nested deeper"), std::string::npos) << source.substr(0, 20);
}

/// A search that compares the whole part at every place takes 10^11 comparisons.
TEST(Limits, SearchesTakeLinearTime) {
  const std::string texts = "{% set n = 'a' * 600000 %}{% set part = 'a' * 300000 + 'b' %}";
  for (const std::string search : {"n.count(part)", "n.find(part)", "part in n", "n.replace(part, '')|length",
                                    "n.split(part)|length", "n.rsplit('b' + 'a' * 300000)|length"}) {
    const timespec begin = thread_time();
    EXPECT_NE(outcome(texts + "{{ " + search + " }}"), "") << search;
    const timespec end = thread_time();
    EXPECT_LT(end.tv_sec - begin.tv_sec, 5) << search;
  }
}

TEST(Limits, RightSplitsBeginAtTheRight) {
  EXPECT_EQ(Template("{{ 'aaa'.rsplit('aa', 1) }} {{ 'é-ü-x'.rsplit('-', 1) }}").render({}).text,
            "['a', ''] ['é-ü', 'x']");
}

TEST(Limits, RaiseExceptionThrowsRaised) {
  EXPECT_THROW(Template("{{ raise_exception('no') }}").render({}), Raised);
}

}  // namespace
}  // namespace trainer::data::jinja
