#include "data/chat/jinja/parser.h"

#include <algorithm>

#include "data/chat/jinja/expression_parser.h"
#include "data/chat/jinja/known_names.h"
#include "data/chat/jinja/token_stream.h"

namespace trainer::data::jinja {
namespace {

using StatementKind = Statement::Kind;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokens_of(source)), expressions_(tokens_) {}

  ParsedTemplate run() {
    Block statements = block({});
    return {std::move(statements), expressions_.used()};
  }

 private:
  /// Parses statements up to a tag that begins with one of `ends`, which is then the next token.
  Block block(const std::vector<std::string_view>& ends) {
    const Nesting nesting(depth_, tokens_.line());
    Block out;
    while (true) {
      if (tokens_.at(Token::Kind::kEnd)) {
        if (!ends.empty()) tokens_.unexpected(fmt::format("{{% {} %}}", ends.back()));
        return out;
      }
      if (tokens_.at(Token::Kind::kText)) {
        const Token token = tokens_.next();
        out.push_back(Statement{StatementKind::kText, token.line, token.text});
      } else if (tokens_.at(Token::Kind::kPrintBegin)) {
        out.push_back(print());
      } else {
        tokens_.expect(Token::Kind::kBlockBegin, "a tag");
        if (std::find(ends.begin(), ends.end(), tokens_.peek().text) != ends.end()) return out;
        out.push_back(statement());
      }
    }
  }

  Statement print() {
    tokens_.next();
    Statement out{StatementKind::kPrint, tokens_.line()};
    out.value = expressions_.tuple();
    tokens_.expect(Token::Kind::kPrintEnd, "}}");
    return out;
  }

  void end_tag() { tokens_.expect(Token::Kind::kBlockEnd, "%}"); }

  /// The rest of `{% endX %}`.
  void end_of(std::string_view word) {
    if (!tokens_.skip_word(word)) tokens_.unexpected(std::string(word));
    end_tag();
  }

  Statement statement() {
    const int line = tokens_.line();
    const std::string word = tokens_.expect_name();
    if (word == "if") return condition(line);
    if (word == "for") return loop(line);
    if (word == "set") return set(line);
    if (word == "macro") return macro(line);
    if (word == "filter") return filter(line);
    if (word == "generation") return generation(line);
    if (word == "break" || word == "continue") {
      if (loops_ == 0) throw Failure(line, "`{}` outside of a loop", word);
      end_tag();
      return {word == "break" ? StatementKind::kBreak : StatementKind::kContinue, line};
    }
    throw Failure(line, "the statement `{}` is not supported", word);
  }

  Statement condition(int line) {
    Statement out{StatementKind::kIf, line};
    for (bool more = true; more;) {
      Branch branch;
      branch.condition = expressions_.tuple(false);
      end_tag();
      branch.body = block({"elif", "else", "endif"});
      out.branches.push_back(std::move(branch));
      more = tokens_.skip_word("elif");
    }
    if (tokens_.skip_word("else")) {
      end_tag();
      out.branches.push_back({nullptr, block({"endif"})});
    }
    end_of("endif");
    return out;
  }

  Statement loop(int line) {
    Statement out{StatementKind::kFor, line};
    out.targets = expressions_.names();
    if (!tokens_.skip_word("in")) tokens_.unexpected("in");
    out.value = expressions_.tuple(false);
    if (tokens_.skip_word("if")) out.condition = expressions_.expression();
    if (tokens_.at_word("recursive")) throw Failure(line, "`recursive` loops are not supported; use a macro");
    end_tag();
    ++loops_;
    out.body = block({"else", "endfor"});
    --loops_;
    if (tokens_.skip_word("else")) {
      end_tag();
      out.otherwise = block({"endfor"});
    }
    end_of("endfor");
    return out;
  }

  Statement set(int line) {
    Statement out{StatementKind::kSet, line};
    if (tokens_.peek(1).is(Token::Kind::kOperator, ".")) {
      out.name = tokens_.expect_name();
      tokens_.next();
      out.field = tokens_.expect_name();
    } else {
      out.targets = expressions_.names();
    }
    if (tokens_.skip_sign("=")) {
      out.value = expressions_.tuple();
      end_tag();
      return out;
    }
    out.kind = StatementKind::kSetBlock;
    if (out.targets.size() > 1) throw Failure(line, "a `set` block sets one name");
    out.value = expressions_.filters();
    end_tag();
    out.body = inner_block("endset");
    return out;
  }

  Statement macro(int line) {
    Statement out{StatementKind::kMacro, line};
    out.name = tokens_.expect_name();
    tokens_.expect_sign("(");
    while (!tokens_.at_sign(")")) {
      out.targets.push_back(tokens_.expect_name());
      if (tokens_.skip_sign("="))
        out.defaults.push_back(expressions_.expression());
      else if (!out.defaults.empty())
        throw Failure(line, "a parameter without a default follows one with a default");
      if (!tokens_.skip_sign(",")) break;
    }
    tokens_.expect_sign(")");
    end_tag();
    const auto around = std::exchange(expressions_.used(), {});
    out.body = inner_block("endmacro");
    out.varargs = expressions_.used().contains("varargs");
    out.kwargs = expressions_.used().contains("kwargs");
    expressions_.used().insert(around.begin(), around.end());
    return out;
  }

  Statement filter(int line) {
    Statement out{StatementKind::kFilter, line};
    out.value = expressions_.filters(true);
    end_tag();
    out.body = inner_block("endfilter");
    return out;
  }

  Statement generation(int line) {
    Statement out{StatementKind::kGeneration, line};
    end_tag();
    out.body = inner_block("endgeneration");
    return out;
  }

  /// A body from which `break` and `continue` can't leave an enclosing loop.
  Block inner_block(std::string_view end) {
    const int loops = loops_;
    loops_ = 0;
    Block out = block({end});
    loops_ = loops;
    end_of(end);
    return out;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0, loops_ = 0;
};

}  // namespace

ParsedTemplate parse(std::string_view source) {
  ParsedTemplate out = Parser(source).run();
  check_names(out.statements);
  return out;
}

}  // namespace trainer::data::jinja
