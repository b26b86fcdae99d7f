// The token stream that the parsers of statements and expressions read.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/jinja/failure.h"
#include "data/chat/jinja/lexer.h"

namespace trainer::data::jinja {

/// The maximum nesting of statements and brackets, and the maximum depth of an expression's tree.
inline constexpr int kMaxSyntaxDepth = 60, kMaxExpressionDepth = 120;

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token next() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_.back(); }
  int line() const { return peek().line; }

  bool at(Token::Kind kind) const { return peek().kind == kind; }
  bool at_sign(std::string_view sign) const { return peek().is(Token::Kind::kOperator, sign); }
  bool at_word(std::string_view word) const { return peek().is(Token::Kind::kName, word); }
  bool skip_sign(std::string_view sign) { return at_sign(sign) && (next(), true); }
  bool skip_word(std::string_view word) { return at_word(word) && (next(), true); }

  void expect_sign(std::string_view sign) {
    if (!skip_sign(sign)) unexpected(std::string(sign));
  }
  std::string expect_name() {
    if (!at(Token::Kind::kName)) unexpected("a name");
    return next().text;
  }
  Token expect(Token::Kind kind, const char* what) {
    if (!at(kind)) unexpected(what);
    return next();
  }

  [[noreturn]] void unexpected(const std::string& wanted) const {
    throw Failure(line(), "expected {}, found {}", wanted, shown());
  }

 private:
  std::string shown() const {
    switch (peek().kind) {
      case Token::Kind::kEnd:
        return "the end of the template";
      case Token::Kind::kPrintEnd:
        return "}}";
      case Token::Kind::kBlockEnd:
        return "%}";
      case Token::Kind::kString:
        return "a string";
      default:
        return "`" + peek().text + "`";
    }
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

/// Counts the recursion depth of a parser.
class Nesting {
 public:
  Nesting(int& depth, int line) : depth_(depth) {
    if (++depth_ > kMaxSyntaxDepth) {
      --depth_;
      throw Failure(line, "nested deeper than {} levels", kMaxSyntaxDepth);
    }
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  int& depth_;
};

}  // namespace trainer::data::jinja
