// Any bytes as a chat template, rendered for a fixed dialogue, give a text or a Failure.
#include "data/chat/jinja/template.h"
#include "tests/fuzz/fuzz.h"

namespace trainer::data::jinja {
namespace {

Variables variables() {
  const auto json = nlohmann::ordered_json::parse(
      R"([{"role":"system","content":"Sei nett. ä🙂"},{"role":"user","content":" a\nb "},)"
      R"({"role":"assistant","content":"c","tool_calls":[{"function":{"name":"f","arguments":{"x":[1,2.5,null,true]}}}]}])");
  return {{"messages", from_json(json)},
          {"bos_token", "<s>"},
          {"eos_token", "</s>"},
          {"tools", None{}},
          {"add_generation_prompt", true}};
}

void fuzz(std::string_view source) {
  Limits limits;
  limits.steps = 200'000;
  limits.bytes = 4 << 20;
  try {
    const Template read(source);
    const Printed first = read.render(variables(), limits);
    size_t at = 0;
    for (const TextRange& range : first.generated) {
      check(range.begin < range.end && range.end <= first.text.size(), "a range is inside the text");
      check(range.begin >= at || range.end <= at, "ranges are nested or disjoint");
      at = range.end;
    }
    if (source.find("strftime_now") == std::string_view::npos)
      check(read.render(variables(), limits).text == first.text, "rendering is deterministic");
  } catch (const Failure& error) {
    check(error.line() >= 0, "a failure has a line");
  }
}

}  // namespace
}  // namespace trainer::data::jinja

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  trainer::data::jinja::fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
