#include "engine/operators/lazy_registration.h"

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/library.h>

#include "engine/operators/libtorchs_own.h"

namespace {

using c10::Dispatcher;
using c10::FunctionSchema;
using c10::OperatorHandle;
using c10::OperatorName;
using torch::_RegisterOrVerify;
using torch::CppFunction;
using torch::Library;
using trainer::operators::fail;
using trainer::operators::Tags;
namespace own = trainer::operators::own;

struct Definition {
  Library* library;
  std::variant<std::string, FunctionSchema> schema;  // a text is parsed when the operator is registered
  c10::AliasAnalysisKind aliases;
  Tags tags;
};

struct Kernel {
  Library* library;
  std::string name;
  CppFunction function;
};

struct Operator {
  bool registered = false;
  std::optional<Definition> definition;
  std::vector<Kernel> kernels;  // in the order of their registration
};

struct Kept {
  std::recursive_mutex mutex;  // guards the rest; libtorch's own is taken after it
  int loading = 1;             // libraries are being loaded
  std::string unparsed;        // the schema that is about to be defined
  std::unordered_map<std::string, Operator> operators;

  Kept() { operators.reserve(5000); }
};

Kept& kept() {
  static auto* const kept = new Kept;  // outlives all globals
  return *kept;
}

/// Constructed with the program's globals, after those of the libraries that it is linked with.
const struct Loaded {
  Loaded() { --kept().loading; }
} loaded;

/// The schema `text` without its arguments.
FunctionSchema only_name(const std::string& text) {
  const std::string full = text.substr(0, text.find_first_of(" ("));
  const auto colons = full.find("::"), dot = full.find('.', colons == full.npos ? 0 : colons);
  return {full.substr(0, dot), dot == full.npos ? "" : full.substr(dot + 1), {}, {}};
}

std::string key(const std::string& name, const std::string& overload) {
  return overload.empty() ? name : name + '.' + overload;
}

FunctionSchema whole_schema(Definition& given) {
  if (auto* const schema = std::get_if<FunctionSchema>(&given.schema)) return std::move(*schema);
  FunctionSchema schema = own::parse(std::get<std::string>(given.schema), false);
  schema.setAliasAnalysis(given.aliases);
  return schema;
}

void register_operator(Operator& given) {
  if (std::exchange(given.registered, true)) return;
  if (auto definition = std::exchange(given.definition, std::nullopt))
    own::define(*definition->library, whole_schema(*definition), nullptr, definition->tags,
                _RegisterOrVerify::REGISTER);
  for (auto& kernel : std::exchange(given.kernels, std::vector<Kernel>()))
    own::implement(*kernel.library, kernel.name.c_str(), std::move(kernel.function), _RegisterOrVerify::REGISTER);
}

/// Where to keep a registration of an operator. Null: it is to take effect now, after those that were kept.
Operator* keeper(const std::string& key, _RegisterOrVerify mode) {
  auto& found = kept().operators[key];
  if (kept().loading > 0 && !found.registered && mode == _RegisterOrVerify::REGISTER) return &found;
  register_operator(found);
  return nullptr;
}

void look_up(const OperatorName& name) {
  const std::lock_guard lock(kept().mutex);
  const auto found = kept().operators.find(key(name.name, name.overload_name));
  if (found != kept().operators.end()) register_operator(found->second);
}

}  // namespace

namespace trainer::operators {

KeepRegistrations::KeepRegistrations() {
  const std::lock_guard lock(kept().mutex);
  ++kept().loading;
}

KeepRegistrations::~KeepRegistrations() {
  const std::lock_guard lock(kept().mutex);
  --kept().loading;
}

}  // namespace trainer::operators

// From here on, libtorch's functions.

namespace torch::jit {

FunctionSchema parseSchema(const std::string& text, bool type_variables) {
  const std::lock_guard lock(kept().mutex);
  if (kept().loading == 0 || type_variables) return own::parse(text, type_variables);
  auto& unparsed = kept().unparsed;
  if (!unparsed.empty()) fail("this libtorch doesn't define what it parses:", unparsed);
  unparsed = text;
  return only_name(text);
}

}  // namespace torch::jit

namespace torch {

Library& Library::_def(FunctionSchema&& schema, OperatorName* name, const Tags& tags, _RegisterOrVerify mode) & {
  const std::lock_guard lock(kept().mutex);
  const std::string text = std::exchange(kept().unparsed, std::string());
  if (!text.empty() && only_name(text).operator_name() != schema.operator_name())
    fail("this libtorch doesn't define what it parses:", text);
  if (ns_) schema.setNamespaceIfNotSet(ns_->c_str());
  const auto aliases = schema.aliasAnalysis();
  auto* const found = name != nullptr ? nullptr : keeper(key(schema.name(), schema.overload_name()), mode);
  Definition definition{this, {}, aliases, tags};
  if (text.empty())
    definition.schema = std::move(schema);
  else
    definition.schema = text;
  if (found != nullptr && !found->definition)
    found->definition = std::move(definition);
  else
    own::define(*this, whole_schema(definition), name, tags, mode);
  return *this;
}

Library& Library::_impl(const char* name, CppFunction&& function, _RegisterOrVerify mode) & {
  const std::lock_guard lock(kept().mutex);
  const std::string given = name;
  auto* const found = keeper(ns_ && given.find("::") == given.npos ? *ns_ + "::" + given : given, mode);
  if (found == nullptr) {
    own::implement(*this, name, std::move(function), mode);
  } else {
    function.schema_.reset();  // inferred from the function's type, to be compared with the operator's
    found->kernels.push_back({this, given, std::move(function)});
  }
  return *this;
}

}  // namespace torch

namespace c10 {

std::optional<OperatorHandle> Dispatcher::findSchema(const OperatorName& name) {
  look_up(name);
  return own::find_schema(*this, name);
}

OperatorHandle Dispatcher::findSchemaOrThrow(const char* name, const char* overload) {
  look_up({name, overload});
  return own::find_schema_or_throw(*this, name, overload);
}

}  // namespace c10
