#include "data/chat/jinja/known_names.h"

#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/failure.h"

namespace trainer::data::jinja {
namespace {

void check_names(const ExpressionPtr& expression, bool in_condition) {
  using Kind = Expression::Kind;
  if (!expression) return;
  const Expression& e = *expression;
  in_condition = in_condition || e.kind == Kind::kCondition;
  if (!in_condition && e.kind == Kind::kFilter && !is_filter(e.name))
    throw Failure(e.line, "the filter `{}` is not supported", e.name);
  if (!in_condition && e.kind == Kind::kTest && !is_test(e.name))
    throw Failure(e.line, "the test `{}` is not supported", e.name);
  for (const ExpressionPtr& part : e.parts) check_names(part, in_condition);
  for (const Argument& argument : e.arguments) check_names(argument.value, in_condition);
}

}  // namespace

void check_names(const Block& block, bool in_condition) {
  using Kind = Statement::Kind;
  for (const Statement& statement : block) {
    const bool own_frame = statement.kind == Kind::kFilter || statement.kind == Kind::kSetBlock;
    check_names(statement.value, in_condition && !own_frame);
    check_names(statement.condition, false);
    for (const ExpressionPtr& value : statement.defaults) check_names(value, false);
    for (const Branch& branch : statement.branches) {
      check_names(branch.condition, true);
      check_names(branch.body, true);
    }
    check_names(statement.body, false);
    check_names(statement.otherwise, false);
  }
}

}  // namespace trainer::data::jinja
