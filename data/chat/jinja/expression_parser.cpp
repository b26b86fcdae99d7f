#include "data/chat/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>

namespace trainer::data::jinja {
namespace {

using ExpressionKind = Expression::Kind;

bool is_one_of(const Token& token, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), token.text) != words.end();
}

}  // namespace

ExpressionPtr ExpressionParser::make(ExpressionKind kind, std::string name) {
  auto made = std::make_unique<Expression>(Expression{kind, tokens_.line()});
  made->name = std::move(name);
  return made;
}

void ExpressionParser::add(Expression& parent, ExpressionPtr part) {
  if (part) parent.depth = std::max(parent.depth, part->depth + 1);
  parent.parts.push_back(std::move(part));
  if (parent.depth > kMaxExpressionDepth)
    throw Failure(parent.line, "an expression is nested deeper than {} levels", kMaxExpressionDepth);
}

void ExpressionParser::add(Expression& parent, std::vector<Argument> arguments) {
  for (const Argument& argument : arguments) parent.depth = std::max(parent.depth, argument.value->depth + 1);
  parent.arguments = std::move(arguments);
}

ExpressionPtr ExpressionParser::tuple(bool conditions, bool in_parentheses) {
  const auto one = [&] { return conditions ? condition() : any_of(); };
  const auto ends = [&] {
    return tokens_.at(Token::Kind::kPrintEnd) || tokens_.at(Token::Kind::kBlockEnd) || tokens_.at_sign(")") ||
           tokens_.at_word("recursive");
  };
  auto all = make(ExpressionKind::kTuple);
  bool comma = false;
  while (!ends()) {
    add(*all, one());
    if (!tokens_.skip_sign(",")) break;
    comma = true;
  }
  if (!comma && !all->parts.empty()) return std::move(all->parts.front());
  if (all->parts.empty() && !in_parentheses) tokens_.unexpected("an expression");
  return all;
}

std::vector<std::string> ExpressionParser::names() {
  std::vector<std::string> out;
  const bool bracket = tokens_.skip_sign("(");
  do {
    if (!out.empty() && !tokens_.at(Token::Kind::kName)) break;  // a trailing comma
    const int line = tokens_.line();
    out.push_back(tokens_.expect_name());
    if (is_one_of({Token::Kind::kName, out.back(), line},
                  {"true", "false", "none", "True", "False", "None", "loop", "not", "and", "or", "if", "in", "is"}))
      throw Failure(line, "`{}` can't be set", out.back());
  } while (tokens_.skip_sign(","));
  if (bracket) tokens_.expect_sign(")");
  return out;
}

ExpressionPtr ExpressionParser::condition() {
  const Nesting nesting(depth_, tokens_.line());
  ExpressionPtr left = any_of();
  while (tokens_.at_word("if")) {
    auto whole = make(ExpressionKind::kCondition);
    tokens_.next();
    add(*whole, std::move(left));
    add(*whole, any_of());
    add(*whole, tokens_.skip_word("else") ? condition() : nullptr);
    left = std::move(whole);
  }
  return left;
}

ExpressionPtr ExpressionParser::any_of() {
  ExpressionPtr left = all_of();
  while (tokens_.at_word("or")) {
    auto whole = make(ExpressionKind::kOr);
    tokens_.next();
    add(*whole, std::move(left));
    add(*whole, all_of());
    left = std::move(whole);
  }
  return left;
}

ExpressionPtr ExpressionParser::all_of() {
  ExpressionPtr left = negation();
  while (tokens_.at_word("and")) {
    auto whole = make(ExpressionKind::kAnd);
    tokens_.next();
    add(*whole, std::move(left));
    add(*whole, negation());
    left = std::move(whole);
  }
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  if (!tokens_.at_word("not")) return comparison();
  const Nesting nesting(depth_, tokens_.line());
  auto whole = make(ExpressionKind::kNot);
  tokens_.next();
  add(*whole, negation());
  return whole;
}

ExpressionPtr ExpressionParser::comparison() {
  auto whole = make(ExpressionKind::kCompare);
  add(*whole, sum());
  while (true) {
    const Token& token = tokens_.peek();
    if (token.kind == Token::Kind::kOperator && is_one_of(token, {"==", "!=", "<", "<=", ">", ">="})) {
      whole->operators.push_back(tokens_.next().text);
    } else if (tokens_.skip_word("in")) {
      whole->operators.emplace_back("in");
    } else if (tokens_.at_word("not") && tokens_.peek(1).is(Token::Kind::kName, "in")) {
      tokens_.next();
      tokens_.next();
      whole->operators.emplace_back("not in");
    } else {
      break;
    }
    add(*whole, sum());
  }
  if (whole->operators.empty()) return std::move(whole->parts.front());
  return whole;
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = joined();
  while (tokens_.at_sign("+") || tokens_.at_sign("-")) {
    auto whole = make(ExpressionKind::kBinary, tokens_.peek().text);
    tokens_.next();
    add(*whole, std::move(left));
    add(*whole, joined());
    left = std::move(whole);
  }
  return left;
}

ExpressionPtr ExpressionParser::joined() {
  auto whole = make(ExpressionKind::kJoin);
  do add(*whole, product());
  while (tokens_.skip_sign("~"));
  if (whole->parts.size() == 1) return std::move(whole->parts.front());
  return whole;
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr left = power();
  while (tokens_.at(Token::Kind::kOperator) && is_one_of(tokens_.peek(), {"*", "/", "//", "%"})) {
    auto whole = make(ExpressionKind::kBinary, tokens_.peek().text);
    tokens_.next();
    add(*whole, std::move(left));
    add(*whole, power());
    left = std::move(whole);
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary();
  while (tokens_.at_sign("**")) {
    auto whole = make(ExpressionKind::kBinary, "**");
    tokens_.next();
    add(*whole, std::move(left));
    add(*whole, unary());
    left = std::move(whole);
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool filtered) {
  const Nesting nesting(depth_, tokens_.line());
  ExpressionPtr whole;
  if (tokens_.at_sign("-") || tokens_.at_sign("+")) {
    whole = make(tokens_.at_sign("-") ? ExpressionKind::kNegative : ExpressionKind::kPositive);
    tokens_.next();
    add(*whole, unary(false));
  } else {
    whole = primary();
  }
  whole = postfix(std::move(whole));
  return filtered ? with_filters(std::move(whole)) : std::move(whole);
}

ExpressionPtr ExpressionParser::primary() {
  if (tokens_.at_sign("[")) return list();
  if (tokens_.at_sign("{")) return dict();
  if (!tokens_.skip_sign("(")) return constant_or_name();
  ExpressionPtr inner = tuple(true, true);
  tokens_.expect_sign(")");
  return inner;
}

ExpressionPtr ExpressionParser::constant_or_name() {
  auto whole = make(ExpressionKind::kConstant);
  const Token token = tokens_.next();
  const char *begin = token.text.data(), *end = begin + token.text.size();
  if (token.kind == Token::Kind::kString) {
    std::string text = token.text;
    while (tokens_.at(Token::Kind::kString)) text += tokens_.next().text;
    whole->constant = std::move(text);
  } else if (token.kind == Token::Kind::kInteger) {
    int64_t number = 0;
    if (std::from_chars(begin, end, number).ec != std::errc{}) throw Failure(token.line, "{} is too large", token.text);
    whole->constant = number;
  } else if (token.kind == Token::Kind::kFloat) {
    double number = 0;
    if (std::from_chars(begin, end, number).ec != std::errc{})
      throw Failure(token.line, "{} is not a representable number", token.text);
    whole->constant = number;
  } else if (token.kind != Token::Kind::kName) {
    throw Failure(token.line, "expected a value{}", token.text.empty() ? "" : ", found `" + token.text + "`");
  } else if (is_one_of(token, {"true", "True", "false", "False"})) {
    whole->constant = token.text == "true" || token.text == "True";
  } else if (is_one_of(token, {"none", "None"})) {
    whole->constant = None{};
  } else {
    whole->kind = ExpressionKind::kName;
    whole->name = token.text;
    used_.insert(token.text);
  }
  return whole;
}

ExpressionPtr ExpressionParser::list() {
  auto whole = make(ExpressionKind::kList);
  tokens_.next();
  while (!tokens_.at_sign("]")) {
    add(*whole, condition());
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign("]");
  return whole;
}

ExpressionPtr ExpressionParser::dict() {
  auto whole = make(ExpressionKind::kDict);
  tokens_.next();
  while (!tokens_.at_sign("}")) {
    add(*whole, condition());
    tokens_.expect_sign(":");
    add(*whole, condition());
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign("}");
  return whole;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr left) {
  while (true) {
    if (tokens_.at_sign("."))
      left = dotted(std::move(left));
    else if (tokens_.at_sign("["))
      left = subscript(std::move(left));
    else if (tokens_.at_sign("("))
      left = call(std::move(left));
    else
      return left;
  }
}

ExpressionPtr ExpressionParser::with_filters(ExpressionPtr left) {
  while (true) {
    if (tokens_.at_sign("|"))
      left = filter(std::move(left));
    else if (tokens_.at_word("is"))
      left = test(std::move(left));
    else if (tokens_.at_sign("("))
      left = call(std::move(left));
    else
      return left;
  }
}

ExpressionPtr ExpressionParser::dotted(ExpressionPtr left) {
  tokens_.next();
  auto whole = make(ExpressionKind::kAttribute);
  add(*whole, std::move(left));
  if (tokens_.at(Token::Kind::kInteger)) {
    whole->kind = ExpressionKind::kItem;
    add(*whole, constant_or_name());
  } else {
    whole->name = tokens_.expect_name();
  }
  return whole;
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr left) {
  auto whole = make(ExpressionKind::kItem);
  tokens_.next();
  add(*whole, std::move(left));
  add(*whole, tokens_.at_sign(":") ? nullptr : condition());
  if (tokens_.at_sign(":")) {
    whole->kind = ExpressionKind::kSlice;
    tokens_.next();
    add(*whole, tokens_.at_sign(":") || tokens_.at_sign("]") ? nullptr : condition());
    add(*whole, tokens_.skip_sign(":") && !tokens_.at_sign("]") ? condition() : nullptr);
  }
  tokens_.expect_sign("]");
  return whole;
}

ExpressionPtr ExpressionParser::call(ExpressionPtr left) {
  auto whole = make(ExpressionKind::kCall);
  add(*whole, std::move(left));
  add(*whole, call_arguments());
  return whole;
}

std::vector<Argument> ExpressionParser::call_arguments() {
  std::vector<Argument> out;
  tokens_.expect_sign("(");
  while (!tokens_.at_sign(")")) {
    Argument argument;
    const std::string before = out.empty() ? "" : out.back().name;
    if (before == "**") throw Failure(tokens_.line(), "an argument follows `**`");
    if (tokens_.at_sign("*") || tokens_.at_sign("**")) {
      argument.name = tokens_.next().text;
      const auto same = [&](const Argument& other) { return other.name == argument.name; };
      if (std::any_of(out.begin(), out.end(), same))
        throw Failure(tokens_.line(), "the argument `{}` is given twice", argument.name);
    } else if (tokens_.at(Token::Kind::kName) && tokens_.peek(1).is(Token::Kind::kOperator, "=")) {
      argument.name = tokens_.next().text;
      tokens_.next();
    } else if (!before.empty()) {
      throw Failure(tokens_.line(), "a positional argument follows {}", before == "*" ? "`*`" : "a keyword argument");
    }
    argument.value = condition();
    out.push_back(std::move(argument));
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign(")");
  return out;
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr left) {
  tokens_.skip_sign("|");
  auto whole = make(ExpressionKind::kFilter, tokens_.expect_name());
  add(*whole, std::move(left));
  if (tokens_.at_sign("(")) add(*whole, call_arguments());
  return whole;
}

ExpressionPtr ExpressionParser::filters(bool inline_start) {
  ExpressionPtr whole;
  if (inline_start) whole = filter(std::move(whole));
  while (tokens_.at_sign("|")) whole = filter(std::move(whole));
  return whole;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr left) {
  tokens_.next();
  const bool negated = tokens_.skip_word("not");
  auto whole = make(ExpressionKind::kTest, tokens_.expect_name());
  add(*whole, std::move(left));
  const Token& next = tokens_.peek();
  const bool value = next.kind == Token::Kind::kString || next.kind == Token::Kind::kInteger ||
                     next.kind == Token::Kind::kFloat || tokens_.at_sign("[") || tokens_.at_sign("{");
  if (tokens_.at_word("is")) throw Failure(next.line, "consecutive tests need `and` between them");
  if (tokens_.at_sign("(")) {
    add(*whole, call_arguments());
  } else if (value || (next.kind == Token::Kind::kName && !is_one_of(next, {"else", "or", "and"}))) {
    std::vector<Argument> argument(1);
    argument[0].value = postfix(primary());
    add(*whole, std::move(argument));
  }
  if (!negated) return whole;
  auto opposite = make(ExpressionKind::kNot);
  add(*opposite, std::move(whole));
  return opposite;
}

}  // namespace trainer::data::jinja
