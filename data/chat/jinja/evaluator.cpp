#include "data/chat/jinja/evaluator.h"

#include <algorithm>

#include "data/chat/jinja/operations.h"
#include "data/chat/jinja/write.h"

namespace trainer::data::jinja {
namespace {

using StatementKind = Statement::Kind;

/// Restores a value at the end of the scope, also when an exception passes.
template <class T>
class Restored {
 public:
  Restored(T& place, T value) : place_(place), before_(std::exchange(place, std::move(value))) {}
  ~Restored() { place_ = std::move(before_); }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  T& place_;
  T before_;
};

std::shared_ptr<Scope> inside(std::shared_ptr<Scope> outer) {
  return std::make_shared<Scope>(Scope{{}, std::move(outer)});
}

}  // namespace

Evaluator::~Evaluator() {
  for (const NamespacePtr& each : namespaces_) each->fields.clear();  // they may reference each other
}

void Evaluator::print(std::string_view text) {
  budget_.make(text.size());
  *out_ += text;
}

Evaluator::Flow Evaluator::execute(const Block& block) {
  for (const Statement& statement : block) {
    try {
      const Flow flow = execute(statement);
      if (flow != Flow::kOn) return flow;
    } catch (const BadOperation& error) {
      throw Failure(statement.line, "{}", error.what());
    }
  }
  return Flow::kOn;
}

Evaluator::Flow Evaluator::execute(const Statement& statement) {
  budget_.step();
  const Restored<int> deeper(depth_, depth_ + 1);
  if (depth_ > budget_.limits().depth) throw BadOperation("the template recurses deeper than {} levels", depth_ - 1);
  switch (statement.kind) {
    case StatementKind::kText:
      print(statement.name);
      break;
    case StatementKind::kPrint:
      print(text_of(evaluate(*statement.value), budget_));
      break;
    case StatementKind::kIf:
      return branch(statement);
    case StatementKind::kFor:
      return loop(statement);
    case StatementKind::kSet:
      set(statement);
      break;
    case StatementKind::kSetBlock:
      set_block(statement);
      break;
    case StatementKind::kMacro:
      scope_->names[statement.name] = std::make_shared<const Macro>(Macro{&statement, scope_});
      break;
    case StatementKind::kFilter:
      print(text_of(filtered(*statement.value, text_of_block(statement.body)), budget_));
      break;
    case StatementKind::kGeneration:
      generation(statement);
      break;
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

Evaluator::Flow Evaluator::branch(const Statement& statement) {
  for (const Branch& branch : statement.branches)
    if (!branch.condition || truth(evaluate(*branch.condition))) return execute(branch.body);
  return Flow::kOn;
}

void Evaluator::assign(const std::vector<std::string>& names, const Value& value) {
  if (names.size() == 1) {
    scope_->names[names.front()] = value;
    return;
  }
  const std::vector<Value> items = items_of(value, budget_);
  if (items.size() != names.size())
    throw BadOperation("cannot unpack {} values into {} names", items.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) scope_->names[names[i]] = items[i];
}

Evaluator::Flow Evaluator::loop(const Statement& statement) {
  const std::shared_ptr<Scope> outer = scope_;
  std::vector<Value> items = items_of(evaluate(*statement.value), budget_);
  const Restored<std::shared_ptr<Scope>> restored(scope_, scope_);
  if (statement.condition) {
    std::vector<Value> kept;
    for (Value& item : items) {
      scope_ = inside(outer);
      assign(statement.targets, item);
      if (truth(evaluate(*statement.condition))) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    scope_ = inside(outer);
    return execute(statement.otherwise);
  }
  return iterate(statement, make_sequence(std::move(items)).as<SequencePtr>(), outer);
}

Evaluator::Flow Evaluator::iterate(const Statement& statement, std::shared_ptr<const Sequence> items,
                                   const std::shared_ptr<Scope>& outer) {
  for (size_t i = 0; i < items->items.size(); ++i) {
    budget_.step();
    scope_ = inside(outer);
    assign(statement.targets, items->items[i]);
    scope_->names["loop"] = std::make_shared<const Loop>(Loop{items, i});
    if (execute(statement.body) == Flow::kBreak) break;
  }
  return Flow::kOn;
}

void Evaluator::set(const Statement& statement) {
  const Value value = evaluate(*statement.value);
  if (statement.field.empty()) return assign(statement.targets, value);
  Expression name{Expression::Kind::kName, statement.line};
  name.name = statement.name;
  const Value object = evaluate(name);
  if (!object.is<NamespacePtr>())
    throw BadOperation("`{}` is not a namespace: its fields can't be set", statement.name);
  object.as<NamespacePtr>()->fields[statement.field] = value;
}

std::string Evaluator::text_of_block(const Block& block) {
  std::string text;
  const Restored<std::shared_ptr<Scope>> scope(scope_, inside(scope_));
  const Restored<std::string*> out(out_, &text);
  execute(block);
  return text;
}

void Evaluator::set_block(const Statement& statement) {
  Value value = text_of_block(statement.body);
  if (statement.value) value = filtered(*statement.value, value);
  if (statement.field.empty()) return assign(statement.targets, value);
  throw BadOperation("a `set` block can't set the field of a namespace; set a name, then the field");
}

void Evaluator::generation(const Statement& statement) {
  if (out_ != &main_) throw BadOperation("`generation` inside a macro or a `set` block has no position in the text");
  const size_t begin = main_.size();
  const Restored<std::shared_ptr<Scope>> scope(scope_, inside(scope_));
  execute(statement.body);
  if (main_.size() > begin) generated_.push_back({begin, main_.size()});
}

Value Evaluator::evaluate(const Expression& expression) {
  budget_.step();
  const Restored<int> deeper(depth_, depth_ + 1);
  if (depth_ > budget_.limits().depth) throw BadOperation("the template recurses deeper than {} levels", depth_ - 1);
  try {
    return value_of(expression);
  } catch (const BadOperation& error) {
    throw Failure(expression.line, "{}", error.what());
  }
}

Value Evaluator::value_of(const Expression& expression) {
  using Is = Expression::Kind;
  const auto part = [&](size_t i) { return evaluate(*expression.parts[i]); };
  switch (expression.kind) {
    case Is::kConstant:
      return expression.constant;
    case Is::kName:
      return name(expression);
    case Is::kAttribute:
      return attribute_of(expression);
    case Is::kItem: {
      const Value object = part(0);
      return item(object, part(1), budget_);
    }
    case Is::kSlice:
      return slice_of(expression);
    case Is::kCall:
      return call(expression);
    case Is::kFilter:
      return filtered(expression, Value());
    case Is::kTest: {
      const Value value = part(0);
      Arguments given = arguments(expression);
      return apply_test(expression.name, value, given, budget_);
    }
    case Is::kNot:
      return !truth(part(0));
    case Is::kNegative:
      return negative(part(0));
    case Is::kPositive:
      return binary("+", int64_t{0}, part(0), budget_);
    case Is::kAnd: {
      const Value left = part(0);
      return truth(left) ? part(1) : left;
    }
    case Is::kOr: {
      const Value left = part(0);
      return truth(left) ? left : part(1);
    }
    case Is::kBinary: {
      const Value left = part(0);
      return binary(expression.name, left, part(1), budget_);
    }
    case Is::kJoin: {
      std::string out;
      for (const Value& each : parts(expression)) {
        const std::string text = text_of(each, budget_);
        budget_.make(text.size());
        out += text;
      }
      return out;
    }
    case Is::kCompare:
      return chain(expression);
    case Is::kCondition:
      if (truth(part(1))) return part(0);
      return expression.parts[2] ? part(2) : Value::undefined("the value of `if` without `else`");
    case Is::kList:
      return make_sequence(parts(expression));
    case Is::kTuple:
      return make_sequence(parts(expression), Sequence::Kind::kTuple);
    case Is::kDict:
      return dict(expression);
  }
  return {};
}

Value Evaluator::name(const Expression& expression) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->outer.get()) {
    const auto found = scope->names.find(expression.name);
    if (found != scope->names.end()) return found->second;
  }
  if (const char* function = function_name(expression.name)) return Function{function};
  return Value::undefined("`" + expression.name + "`");
}

Value Evaluator::attribute_of(const Expression& expression) {
  const Value object = evaluate(*expression.parts[0]);
  if (is_method(object, expression.name))
    throw BadOperation("`{0}` of a {1} is a method: call it, or write ['{0}']", expression.name, object.type());
  return attribute(object, expression.name);
}

Value Evaluator::slice_of(const Expression& expression) {
  Value values[4];
  for (size_t i = 0; i < 4; ++i) values[i] = expression.parts[i] ? evaluate(*expression.parts[i]) : Value(None{});
  return slice(values[0], values[1], values[2], values[3], budget_);
}

std::vector<Value> Evaluator::parts(const Expression& expression) {
  std::vector<Value> out;
  budget_.make(expression.parts.size() * sizeof(Value));
  for (const ExpressionPtr& part : expression.parts) out.push_back(evaluate(*part));
  return out;
}

Value Evaluator::dict(const Expression& expression) {
  std::vector<std::pair<Value, Value>> items;
  const std::vector<Value> all = parts(expression);
  for (size_t i = 0; i < all.size(); i += 2) items.emplace_back(all[i], all[i + 1]);
  return make_dict(std::move(items));
}

bool Evaluator::chain(const Expression& expression) {
  Value left = evaluate(*expression.parts[0]);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = evaluate(*expression.parts[i + 1]);
    if (!compare_by(expression.operators[i], left, right, budget_)) return false;
    left = std::move(right);
  }
  return true;
}

Arguments Evaluator::arguments(const Expression& expression) {
  Arguments out;
  for (const Argument& argument : expression.arguments) {
    const Value value = evaluate(*argument.value);
    if (argument.name == "*") {
      for (const Value& item : items_of(value, budget_)) out.add("", item);
    } else if (argument.name == "**") {
      if (!value.is<DictPtr>()) throw BadOperation("`**` of a {}", value.type());
      for (const auto& [name, item] : value.as<DictPtr>()->items) {
        if (!name.is<Text>() || name.text().empty()) throw BadOperation("`**` of a dict with the key {}", name.type());
        out.add(name.text(), item);
      }
    } else {
      out.add(argument.name, value);
    }
  }
  return out;
}

Value Evaluator::filtered(const Expression& expression, const Value& innermost) {
  const Expression* const inner = expression.parts[0].get();
  Value value = innermost;
  if (inner != nullptr) value = innermost.is<Text>() ? filtered(*inner, innermost) : evaluate(*inner);
  Arguments given = arguments(expression);
  return apply_filter(expression.name, value, given, budget_);
}

Value Evaluator::call(const Expression& expression) {
  const Expression& callee = *expression.parts[0];
  if (callee.kind == Expression::Kind::kAttribute) {
    const Value object = evaluate(*callee.parts[0]);
    if (is_method(object, callee.name)) {
      Arguments given = arguments(expression);
      return *call_method(object, callee.name, given, budget_);
    }
    if (!object.is<NamespacePtr>())
      throw BadOperation("a {} has no method `{}`, or the method is not supported", object.type(), callee.name);
  }
  const Value function = evaluate(callee);
  Arguments given = arguments(expression);
  if (function.is<MacroPtr>()) return call_macro(*function.as<MacroPtr>(), given);
  if (function.is<Undefined>())
    throw BadOperation("{} is undefined and can't be called", *function.as<Undefined>().what);
  if (!function.is<Function>()) throw BadOperation("a {} can't be called", function.type());
  const std::string_view name = function.as<Function>().name;
  if (name == "raise_exception") {
    const Value message = given.take(0, "message").value_or("");
    throw Raised(expression.line, "{}", text_of(message, budget_));
  }
  Value out = call_function(name, given, budget_);
  if (out.is<NamespacePtr>()) namespaces_.push_back(out.as<NamespacePtr>());
  return out;
}

Value Evaluator::call_macro(const Macro& macro, Arguments& given) {
  const Statement& statement = *macro.statement;
  const std::shared_ptr<Scope> outer = macro.scope.lock();
  if (!outer) throw BadOperation("the macro `{}` is called outside the scope that defines it", statement.name);
  const std::shared_ptr<Scope> scope = inside(outer);
  const Restored<std::shared_ptr<Scope>> restored(scope_, scope);
  const size_t count = statement.targets.size(), plain = count - statement.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = statement.targets[i];
    auto value = given.take(i, name);
    if (!value) value = i >= plain ? evaluate(*statement.defaults[i - plain]) : Value::undefined("`" + name + "`");
    scope->names[name] = *value;
  }
  if (statement.varargs) scope->names["varargs"] = make_sequence(given.placed_from(count), Sequence::Kind::kTuple);
  if (statement.kwargs) {
    std::vector<std::pair<Value, Value>> more;
    for (auto& [name, value] : given.named()) more.emplace_back(name, std::move(value));
    scope->names["kwargs"] = make_dict(std::move(more));
  }
  given.finish();
  return text_of_block(statement.body);
}

}  // namespace trainer::data::jinja
