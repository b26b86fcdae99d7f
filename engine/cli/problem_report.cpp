#include "engine/cli/problem_report.h"

#include <algorithm>
#include <optional>

#include "engine/base/safe_text.h"
#include "engine/config/document/json_text.h"
#include "engine/config/document/scalar.h"

namespace trainer::cli {
namespace {

using config::Node;

constexpr std::size_t kMost = 50;  // as Problems::text

bool in_file(const config::Mark& mark) {
  return mark.source && !mark.source->starts_with("--") && !mark.source->starts_with(config::kEnvironmentSource);
}

/// "a.yaml", "a.yaml and b.yaml", or "" when all problems are on the command line.
std::string files_of(const std::vector<config::Problem>& problems) {
  std::vector<std::string> files;
  for (const config::Problem& problem : problems) {
    if (!in_file(problem.mark)) continue;
    const std::string& file = *problem.mark.source;
    if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
  }
  return fmt::format("{}", fmt::join(files, " and "));
}

std::string painted(const std::string& text, const char* color, bool wanted) {
  return wanted ? fmt::format("\033[{}m{}\033[0m", color, text) : text;
}

std::string entry_text(const config::Problem& problem, bool color) {
  std::string place = problem.mark.source ? config::to_string(problem.mark) + ": " : "";
  std::string text = painted(safe_text(place), "1", color) + painted(safe_text(problem.message), "31", color) + "\n";
  const std::string lines = safe_text(config::excerpt(problem.mark));
  return lines.empty() ? text : text + painted(lines, "2", color) + "\n";
}

/// Removes ":12" from the end of `place` and returns 12; 0 when there is no such ending.
int take_number(std::string& place) {
  const std::size_t colon = place.rfind(':');
  const auto number = colon == std::string::npos ? std::nullopt : config::parse_int(place.substr(colon + 1));
  if (!number || *number < 1 || *number > 1'000'000'000) return 0;
  place.resize(colon);
  return static_cast<int>(*number);
}

Node text_node(const std::string& text) {
  return Node::scalar(text, true);
}

}  // namespace

std::vector<config::Problem> problems_of(const ConfigError& error) {
  if (const auto* known = dynamic_cast<const config::ConfigProblems*>(&error)) return known->problems();
  // A YAML syntax error is thrown as text that begins with its place.
  const std::string text = error.what();
  const std::size_t end = text.find(": ");
  if (end == std::string::npos) return {{{}, "", text, ""}};
  std::string file = text.substr(0, end);
  const int column = take_number(file), line = column ? take_number(file) : 0;
  if (access(file.c_str(), F_OK) != 0) return {{{}, "", text, ""}};  // not a place, but part of a sentence
  return {{{std::make_shared<const std::string>(file), line, column}, "", text.substr(end + 2), ""}};
}

std::string problem_report(const std::vector<config::Problem>& problems, bool color) {
  std::string text;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (i == kMost && problems.size() > kMost + 1) {
      text += fmt::format("… and {} more\n", problems.size() - kMost);
      break;
    }
    text += entry_text(problems[i], color);
  }
  const std::string files = files_of(problems);
  return text + fmt::format("{} {}{}\n", problems.size(), problems.size() == 1 ? "problem" : "problems",
                            files.empty() ? "" : " in " + files);
}

std::string problem_json(const std::vector<config::Problem>& problems) {
  Node list = Node::list({});
  for (const config::Problem& problem : problems) {
    const bool file = in_file(problem.mark);
    Node entry = Node::map();
    entry["file"] = file ? text_node(*problem.mark.source) : Node();
    entry["line"] = Node::scalar(std::to_string(problem.mark.line));
    entry["column"] = Node::scalar(std::to_string(problem.mark.column));
    if (!file && problem.mark.source) entry["origin"] = text_node(*problem.mark.source);
    entry["option"] = text_node(problem.path);
    entry["message"] = text_node(without_secrets(problem.message));
    entry["rule"] = text_node(problem.rule);
    list.items.push_back(std::move(entry));
  }
  Node root = Node::map();
  root["problems"] = std::move(list);
  return config::to_json(root);
}

}  // namespace trainer::cli
