// The syntax tree of a template.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/chat/jinja/value.h"

namespace trainer::data::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Argument {
  std::string name;  // "" for a positional argument; "*" and "**": an unpacked list or dict
  ExpressionPtr value;
};

struct Expression {
  enum class Kind {
    kConstant,   // constant
    kName,       // name
    kAttribute,  // parts[0].name
    kItem,       // parts[0][parts[1]]
    kSlice,      // parts[0][parts[1]:parts[2]:parts[3]], each of these may be null
    kCall,       // parts[0](arguments)
    kFilter,     // parts[0] | name(arguments); parts[0] is null for a filtered block
    kTest,       // parts[0] is name(arguments)
    kNot,
    kNegative,
    kPositive,
    kAnd,
    kOr,
    kBinary,     // parts[0] name parts[1]
    kJoin,       // parts, with ~ between
    kCompare,    // parts, with operators between
    kCondition,  // parts[0] if parts[1] else parts[2], which may be null
    kList,
    kTuple,
    kDict,  // key, item, key, item, …
  };

  Kind kind;
  int line = 0;
  int depth = 1;  // of its subtree, including itself
  std::string name{};
  Value constant{};
  std::vector<ExpressionPtr> parts{};
  std::vector<Argument> arguments{};
  std::vector<std::string> operators{};
};

struct Statement;
using Block = std::vector<Statement>;

/// A branch of an `if`.
struct Branch {
  ExpressionPtr condition;  // null: `else`
  Block body;
};

struct Statement {
  enum class Kind { kText, kPrint, kIf, kFor, kSet, kSetBlock, kMacro, kFilter, kBreak, kContinue, kGeneration };

  Kind kind;
  int line = 0;
  std::string name{};                     // the text; the macro's name; the namespace of `set name.field`
  std::string field{};                    // of the namespace
  std::vector<std::string> targets{};     // the names being set; a macro's parameters
  std::vector<ExpressionPtr> defaults{};  // of the last parameters
  ExpressionPtr value{};                  // the value printed, set or iterated over; the filter of a block
  ExpressionPtr condition{};              // of a `for`
  bool varargs = false, kwargs = false;   // a macro that takes extra positional or keyword arguments
  Block body{};
  std::vector<Branch> branches{};
  Block otherwise{};  // `else` of a `for`
};

}  // namespace trainer::data::jinja
