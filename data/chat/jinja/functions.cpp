// Global functions.
#include <ctime>

#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/operations.h"

namespace trainer::data::jinja {
namespace {

constexpr const char* kFunctions[] = {"raise_exception", "strftime_now", "range", "namespace", "dict"};

Value range(Arguments& a, Budget& budget) {
  int64_t start = 0, stop = a.whole(0, "", 0), step = 1;
  if (a.placed() == 0) throw BadOperation("`range` needs a number");
  if (a.placed() > 1) {
    start = stop;
    stop = a.whole(1, "", 0);
    step = a.whole(2, "", 1);
  }
  if (step == 0) throw BadOperation("the step of `range` is 0");
  std::vector<Value> out;
  for (int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (static_cast<int64_t>(out.size()) >= budget.limits().range)
      throw BadOperation("`range` of more than {} numbers", budget.limits().range);
    out.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  budget.make(out.size() * sizeof(Value));
  return make_sequence(std::move(out), Sequence::Kind::kRange);
}

std::string now(const std::string& format) {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  localtime_r(&time, &parts);
  char buffer[1024];
  if (format.size() > 128) throw BadOperation("the format of `strftime_now` is too long");
  return {buffer, std::strftime(buffer, sizeof buffer, format.c_str(), &parts)};
}

/// The arguments of `namespace` and `dict`: a dict, then keyword arguments.
std::vector<std::pair<Value, Value>> fields(Arguments& a) {
  std::vector<std::pair<Value, Value>> out;
  if (const auto first = a.take(0, "")) {
    if (!first->is<DictPtr>()) throw BadOperation("expected a dict, found a {}", first->type());
    out = first->as<DictPtr>()->items;
  }
  for (auto& [name, value] : a.named()) out.emplace_back(name, std::move(value));
  return out;
}

Value make_namespace(Arguments& a) {
  auto made = std::make_shared<Namespace>();
  for (auto& [name, value] : fields(a)) {
    if (!name.is<Text>()) throw BadOperation("the name of a field is a {}", name.type());
    made->fields[name.text()] = std::move(value);
  }
  return made;
}

}  // namespace

const char* function_name(std::string_view name) {
  for (const char* known : kFunctions)
    if (name == known) return known;
  return nullptr;
}

Value call_function(std::string_view name, Arguments& arguments, Budget& budget) {
  budget.make(sizeof(Namespace));
  Value out = name == "range"          ? range(arguments, budget)
              : name == "strftime_now" ? Value(now(arguments.text(0, "format", "")))
              : name == "namespace"    ? make_namespace(arguments)
                                       : make_dict(fields(arguments));
  arguments.finish();
  return out;
}

}  // namespace trainer::data::jinja
