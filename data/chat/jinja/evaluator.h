// Evaluates a template.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/chat/jinja/budget.h"
#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/syntax.h"
#include "data/chat/rendered.h"

namespace trainer::data::jinja {

/// Names and their values; a name that is not found is looked up in the enclosing scope.
struct Scope {
  std::map<std::string, Value, std::less<>> names;
  std::shared_ptr<Scope> outer;
};

/// A macro and the scope that defines it. The reference is weak because the scope owns the macro.
struct Macro {
  const Statement* statement;
  std::weak_ptr<Scope> scope;
};

class Evaluator {
 public:
  Evaluator(std::shared_ptr<Scope> variables, const Limits& limits) : scope_(std::move(variables)), budget_(limits) {}
  ~Evaluator();

  /// Errors: Failure.
  void run(const Block& block) { execute(block); }

  std::string& text() { return *out_; }
  std::vector<TextRange>& generated() { return generated_; }

 private:
  enum class Flow { kOn, kBreak, kContinue };

  Flow execute(const Block& block);
  Flow execute(const Statement& statement);
  Flow branch(const Statement& statement);
  Flow loop(const Statement& statement);
  Flow iterate(const Statement& statement, std::shared_ptr<const Sequence> items, const std::shared_ptr<Scope>& outer);
  void set(const Statement& statement);
  void set_block(const Statement& statement);
  void generation(const Statement& statement);
  void print(std::string_view text);
  void assign(const std::vector<std::string>& names, const Value& value);
  /// The text that a block prints, evaluated in a new scope.
  std::string text_of_block(const Block& block);

  Value evaluate(const Expression& expression);
  Value value_of(const Expression& expression);
  Value name(const Expression& expression);
  Value call(const Expression& expression);
  Value call_macro(const Macro& macro, Arguments& arguments);
  Value filtered(const Expression& expression, const Value& innermost);
  Value attribute_of(const Expression& expression);
  Value slice_of(const Expression& expression);
  Value dict(const Expression& expression);
  bool chain(const Expression& expression);
  std::vector<Value> parts(const Expression& expression);
  Arguments arguments(const Expression& expression);

  std::shared_ptr<Scope> scope_;
  Budget budget_;
  int depth_ = 0;
  std::string main_;
  std::string* out_ = &main_;
  std::vector<TextRange> generated_;
  std::vector<NamespacePtr> namespaces_;
};

}  // namespace trainer::data::jinja
