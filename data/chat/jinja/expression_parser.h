// Parses expressions.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "data/chat/jinja/syntax.h"
#include "data/chat/jinja/token_stream.h"

namespace trainer::data::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPtr expression() { return condition(); }
  /// One expression, or several separated by commas, which form a tuple. `conditions`: allow `a if b`.
  ExpressionPtr tuple(bool conditions = true, bool in_parentheses = false);
  /// `| filter | filter`, where the innermost has no value; `inline_start`: the first one without its `|`.
  ExpressionPtr filters(bool inline_start = false);
  std::vector<std::string> names();
  /// All names used by the expressions parsed so far.
  std::set<std::string>& used() { return used_; }

 private:
  ExpressionPtr condition();
  ExpressionPtr any_of();
  ExpressionPtr all_of();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr joined();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters = true);
  ExpressionPtr primary();
  ExpressionPtr postfix(ExpressionPtr left);
  ExpressionPtr with_filters(ExpressionPtr left);
  ExpressionPtr constant_or_name();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr dotted(ExpressionPtr left);
  ExpressionPtr subscript(ExpressionPtr left);
  ExpressionPtr call(ExpressionPtr left);
  ExpressionPtr filter(ExpressionPtr left);
  ExpressionPtr test(ExpressionPtr left);
  std::vector<Argument> call_arguments();
  ExpressionPtr make(Expression::Kind kind, std::string name = "");
  void add(Expression& parent, ExpressionPtr part);
  void add(Expression& parent, std::vector<Argument> arguments);

  TokenStream& tokens_;
  std::set<std::string> used_;
  int depth_ = 0;
};

}  // namespace trainer::data::jinja
