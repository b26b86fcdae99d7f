#include "data/chat/tool_calls.h"

#include <algorithm>
#include <string_view>

#include "data/readers/text_input.h"
#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

using Json = nlohmann::ordered_json;

bool is_call(const Json& call) {
  return call.is_object() && call.contains("name") && call["name"].is_string() && call.contains("arguments");
}

Json function(const Json& inside) {
  return {{"type", "function"}, {"function", inside}};
}

}  // namespace

Json call_of(const std::string& text, size_t number, const Record& record) {
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  std::string_view rest = trimmed(text), thoughts;
  if (const size_t end = rest.find(kEnd); rest.starts_with(kBegin) && end != std::string_view::npos) {
    thoughts = rest.substr(0, end + kEnd.size());
    rest = trimmed(rest.substr(thoughts.size()));
  }
  Json given = bounded_json_or_none<Json>(rest);
  if (given.is_object()) given = Json::array({std::move(given)});
  if (!given.is_array() || given.empty() || !std::all_of(given.begin(), given.end(), is_call))
    throw InputError(
        "{}: turn {} is a function_call, but not an object with `name` and `arguments`, nor a list of such objects.",
        record.where(), number);
  for (Json& call : given) call = function(call);
  return {{"role", "assistant"}, {"content", thoughts}, {"tool_calls", std::move(given)}};
}

void complete_tools(Json& tools) {
  for (Json& tool : tools)
    if (tool.is_object() && tool.contains("name") && !tool.contains("function")) tool = function(tool);
}

}  // namespace trainer::data
