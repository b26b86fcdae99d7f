#include "data/chat/jinja/template.h"

#include <algorithm>

#include <utf8proc.h>

#include "data/chat/jinja/evaluator.h"

namespace trainer::data::jinja {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

/// `source` after checking its size and encoding.
std::string_view checked(std::string_view source) {
  if (source.size() > kMaxBytes) throw Failure(0, "the template is larger than {} MiB", kMaxBytes >> 20);
  int line = 1;
  for (size_t at = 0; at < source.size();) {
    utf8proc_int32_t c = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(source.data() + at);
    const auto used = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(source.size() - at), &c);
    if (used <= 0 || c == 0) throw Failure(line, "the template is not valid UTF-8");
    line += c == '\n' ? 1 : 0;
    at += static_cast<size_t>(used);
  }
  return source;
}

bool holds_generation(const Block& block) {
  return std::any_of(block.begin(), block.end(), [](const Statement& s) {
    const auto in_branch = [](const Branch& branch) { return holds_generation(branch.body); };
    return s.kind == Statement::Kind::kGeneration || holds_generation(s.body) || holds_generation(s.otherwise) ||
           std::any_of(s.branches.begin(), s.branches.end(), in_branch);
  });
}

}  // namespace

Template::Template(std::string_view source)
    : parsed_(parse(checked(source))), has_generation_(holds_generation(parsed_.statements)) {}

Printed Template::render(const Variables& variables, const Limits& limits) const {
  auto scope = std::make_shared<Scope>();
  for (const auto& [name, value] : variables) scope->names[name] = value;
  Evaluator evaluator(scope, limits);
  evaluator.run(parsed_.statements);
  return {std::move(evaluator.text()), std::move(evaluator.generated())};
}

}  // namespace trainer::data::jinja
