// Tests: `value is test`.
#include <algorithm>

#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/operations.h"
#include "data/chat/jinja/text.h"

namespace trainer::data::jinja {
namespace {

using Test = bool (*)(const Value& value, Arguments& arguments, Budget& budget);

struct NamedTest {
  std::string_view name;
  Test test;
};

Value operand(Arguments& arguments) {
  auto given = arguments.take(0, "other");
  if (!given) throw BadOperation("the test needs a value to compare with");
  return *given;
}

bool has_items(const Value& v) {
  return v.is<SequencePtr>() || v.is<DictPtr>() || v.is<Text>() || v.is<Undefined>() || v.is<LoopPtr>();
}

bool has_length(const Value& v) {
  return has_items(v) && !v.is_sequence(Sequence::Kind::kLazy) && !v.is_sequence(Sequence::Kind::kView) &&
         !v.is<LoopPtr>() && !v.is<Undefined>();
}

int64_t rest(const Value& value, int64_t by) {
  const Value rest = [&] {
    Budget budget{Limits{}};
    return binary("%", value, by, budget);
  }();
  return rest.is_whole() ? rest.whole() : (rest.number() == 0 ? 0 : 2);
}

bool same_case(const Value& value, std::string (*change)(std::string_view)) {
  if (!value.is<Text>()) return false;
  const std::string& text = value.text();
  return change(text) == text && (upper(text) != text || lower(text) != text);
}

#define COMPARES(sign) [](const Value& v, Arguments& a, Budget& b) { return compare_by(sign, v, operand(a), b); }
#define HOLDS(condition) [](const Value& v, Arguments&, Budget&) -> bool { return condition; }

constexpr NamedTest kTests[] = {
    {"defined", HOLDS(!v.is<Undefined>())},
    {"undefined", HOLDS(v.is<Undefined>())},
    {"none", HOLDS(v.is<None>())},
    {"boolean", HOLDS(v.is<bool>())},
    {"true", HOLDS(v.is<bool>() && v.as<bool>())},
    {"false", HOLDS(v.is<bool>() && !v.as<bool>())},
    {"integer", HOLDS(v.is<int64_t>())},
    {"float", HOLDS(v.is<double>())},
    {"number", HOLDS(v.is_number())},
    {"string", HOLDS(v.is<Text>())},
    {"mapping", HOLDS(v.is<DictPtr>())},
    {"iterable", HOLDS(has_items(v))},
    {"sequence", HOLDS(has_length(v))},
    {"callable", HOLDS(v.is<MacroPtr>() || v.is<Function>())},
    {"lower", HOLDS(same_case(v, lower))},
    {"upper", HOLDS(same_case(v, upper))},
    {"odd", HOLDS(rest(v, 2) == 1)},
    {"even", HOLDS(rest(v, 2) == 0)},
    {"divisibleby",
     [](const Value& v, Arguments& a, Budget&) {
       const auto by = a.take(0, "num");
       if (!by || !by->is_whole()) throw BadOperation("`divisibleby` needs an integer");
       return rest(v, by->whole()) == 0;
     }},
    {"eq", COMPARES("==")},
    {"equalto", COMPARES("==")},
    {"ne", COMPARES("!=")},
    {"lt", COMPARES("<")},
    {"lessthan", COMPARES("<")},
    {"le", COMPARES("<=")},
    {"gt", COMPARES(">")},
    {"greaterthan", COMPARES(">")},
    {"ge", COMPARES(">=")},
    {"in", COMPARES("in")},
};

#undef COMPARES
#undef HOLDS

const NamedTest* find_test(std::string_view name) {
  const auto found = std::find_if(std::begin(kTests), std::end(kTests), [&](const NamedTest& t) { return t.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace

bool is_test(std::string_view name) {
  return find_test(name) != nullptr;
}

bool apply_test(std::string_view name, const Value& value, Arguments& arguments, Budget& budget) {
  budget.step(1 + static_cast<size_t>(value.is<Text>() ? size_of(value) : 0));
  const NamedTest* const found = find_test(name);
  if (found == nullptr) throw BadOperation("the test `{}` is not supported", name);
  const bool holds = found->test(value, arguments, budget);
  arguments.finish();
  return holds;
}

}  // namespace trainer::data::jinja
