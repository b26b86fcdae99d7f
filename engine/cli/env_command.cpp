#include <cctype>

#include <fmt/format.h>

#include "engine/cli/env_facts.h"
#include "engine/cli/flags.h"

namespace trainer::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Markdown, as issues show it: each fact a line, a document in a block.
std::string page_of(const std::vector<FactSection>& sections) {
  std::string page;
  for (const FactSection& section : sections) {
    page += fmt::format("{}**{}**\n", page.empty() ? "" : "\n", section.title);
    if (section.facts.empty()) page += "- none\n";
    for (const Fact& fact : section.facts) {
      if (fact.text.find('\n') == std::string::npos) {
        page += fmt::format("- {}: {}\n", fact.name, fact.text);
        continue;
      }
      page += fmt::format("- {}:\n\n```\n{}{}```\n", fact.name, fact.text, fact.text.ends_with('\n') ? "" : "\n");
    }
  }
  return page;
}

/// "cores of the machine" as "cores_of_the_machine".
std::string key_of(const std::string& name) {
  std::string key;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!key.empty() && key.back() != '_' && (c == ' ' || c == '-' || c == '.' || c == '/' || c == '_'))
      key += '_';
  }
  return key;
}

Json json_of(const std::vector<FactSection>& sections) {
  Json all = Json::object();
  for (const FactSection& section : sections) {
    Json& facts = all[key_of(section.title)] = Json::object();
    for (const Fact& fact : section.facts) facts[section.has_variables ? fact.name : key_of(fact.name)] = fact.value;
  }
  return all;
}

}  // namespace

int run_env(const Arguments& arguments) {
  CLI::App app(
      "Print what a bug report needs: the program, this machine, its GPUs and network, the variables that matter for "
      "training, the default configuration file and the caches. Secrets are never printed (a variable whose name hints "
      "at one is shown as \"set\"), and the home folder and the user's name in paths are printed as ~.",
      "env");
  app.footer(
      "Examples:\n  trainer env            text for an issue\n"
      "  trainer env --json     one JSON object: {section: {fact: value}}, sizes in bytes\n");
  bool json = false;
  app.add_flag("--json", json, "print one JSON object");
  if (!parse(app, arguments)) return 0;
  const std::vector<FactSection> sections = all_facts();
  if (json) {
    fmt::print("{}\n", json_of(sections).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", page_of(sections));
  }
  return 0;
}

}  // namespace trainer::cli
