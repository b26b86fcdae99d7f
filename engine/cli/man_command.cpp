#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fmt/ranges.h>

#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/cli/flags.h"
#include "engine/cli/man_page.h"
#include "engine/cli/worker_child.h"
#include "engine/config/document/problems.h"

namespace trainer::cli {
namespace fs = std::filesystem;
namespace {

struct Page {
  std::string command;  // "checkpoint list"; "": trainer itself
  std::string summary;
};

std::string printed_help(const std::string& command) {
  Arguments words;
  for (size_t begin = 0; begin < command.size();) {
    const size_t end = std::min(command.find(' ', begin), command.size());
    words.push_back(command.substr(begin, end - begin));
    begin = end + 1;
  }
  words.emplace_back("--help");
  const auto help = ask_trainer(words);
  require(help.has_value(), "`trainer {}` failed", fmt::join(words, " "));
  return *help;
}

/// The subcommands that a help lists, below "Subcommands:" or before any heading.
std::vector<Page> subcommands_of(const std::string& command, const std::string& help) {
  std::vector<Page> found;
  bool lists = false;
  for (size_t begin = 0; begin < help.size();) {
    const size_t end = std::min(help.find('\n', begin), help.size());
    const std::string line = help.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("Usage:")) lists = true;
    if (line.ends_with(':') && !line.starts_with(' ')) lists = line == "Subcommands:";
    const size_t gap = line.find("  ", 2);
    if (!lists || !line.starts_with("  ") || gap == std::string::npos || line[2] < 'a' || line[2] > 'z') continue;
    found.push_back({command + " " + line.substr(2, gap - 2), line.substr(line.find_first_not_of(' ', gap))});
  }
  return found;
}

/// Every command and subcommand, `trainer` first.
std::vector<Page> all_pages() {
  std::vector<Page> pages{{"", "train and fine-tune transformer models from one YAML file"}};
  for (const Command& command : commands()) {
    pages.push_back({command.name, command.help});
    for (const Page& sub : subcommands_of(command.name, printed_help(command.name))) pages.push_back(sub);
  }
  return pages;
}

std::string file_name(const std::string& command) {
  std::string name = command.empty() ? "trainer" : "trainer-" + command;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name + ".1";
}

/// What follows in the page of trainer itself: the exit codes, which every command shares.
constexpr const char* kExitStatus =
    ".SH EXIT STATUS\n"
    ".TP\n.B 0\ndone\n"
    ".TP\n.B 1\na bug of trainer; please report it\n"
    ".TP\n.B 2\nusage or configuration; nothing was started\n"
    ".TP\n.B 3\na bad input file: data, tokenizer, model, checkpoint\n"
    ".TP\n.B 4\nthis machine: port, disk, permission, memory, device\n"
    ".TP\n.B 5\nnumeric: not finite, diverged\n"
    ".TP\n.B 6\na peer or the network\n"
    ".TP\n.B 7\ngave up: restarts spent or no progress; do not requeue\n"
    ".TP\n.B 130\ninterrupted, saved\n"
    ".TP\n.B 143\nasked to stop, saved; requeue\n"
    ".TP\n.B 128+n\na rank died of signal n, and restarts are off\n";

std::string see_also(const std::vector<Page>& pages, const std::string& command) {
  std::string text = ".SH SEE ALSO\n";
  const auto add = [&](const std::string& name) { text += fmt::format(".BR {} (1),\n", name); };
  const std::string parent = command.substr(0, command.find(' '));
  if (!command.empty()) add("trainer");
  for (const Page& page : pages) {
    const bool related =
        command.empty() ? page.command.find(' ') == std::string::npos && !page.command.empty()
                        : page.command != command && (page.command.starts_with(parent + " ") || page.command == parent);
    const std::string name = file_name(page.command);
    if (related) add(name.substr(0, name.size() - 2));
  }
  return text.substr(0, text.size() - 2) + "\n";
}

std::string page_text(const Page& page, const std::vector<Page>& pages) {
  return man_page({page.command, page.summary, printed_help(page.command),
                   (page.command.empty() ? kExitStatus : "") + see_also(pages, page.command)});
}

void write_pages(const std::vector<Page>& pages, const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw machine_error("create", folder, error.value());
  for (const Page& page : pages) publish_file(folder / file_name(page.command), page_text(page, pages));
  fmt::print("wrote {} pages to {}\n", pages.size(), folder.string());
}

/// On a terminal as `man` shows it, else as roff.
void show_page(const std::string& text) {
  std::FILE* const reader = isatty(STDOUT_FILENO) == 1 ? popen("man -l - 2>/dev/null || cat", "w") : nullptr;
  if (reader == nullptr) {
    fmt::print("{}", text);
    return;
  }
  std::fwrite(text.data(), 1, text.size(), reader);
  pclose(reader);
}

}  // namespace

int run_man(const Arguments& arguments) {
  CLI::App app(
      "Show the manual page of trainer or of one of its commands: on a terminal with `man`, else as roff. `cmake "
      "--install` and the packages put the pages where `man trainer-launch` finds them.",
      "man");
  app.footer(
      "Examples:\n  trainer man merge\n"
      "  trainer man checkpoint list\n"
      "  trainer man --all ~/.local/share/man/man1   writes a file for each page\n");
  std::vector<std::string> words;
  std::string folder;
  app.add_option("COMMAND", words, "a command and, if it has any, a subcommand; without it, trainer itself");
  app.add_option("--all", folder, "write all pages to this folder instead");
  if (!parse(app, arguments)) return 0;
  if (!folder.empty() && !words.empty()) throw ConfigError("--all writes every page; leave out {}.", words.front());
  const std::vector<Page> pages = all_pages();
  if (!folder.empty()) {
    write_pages(pages, folder);
    return kDone;
  }
  const std::string command = fmt::format("{}", fmt::join(words, " "));
  const auto found =
      std::find_if(pages.begin(), pages.end(), [&](const Page& page) { return page.command == command; });
  if (found == pages.end()) {
    std::vector<std::string> page_names;
    for (const Page& page : pages) page_names.push_back(page.command);
    throw ConfigError("there is no command '{}'{}; `trainer --help` lists them", config::shown(command),
                      did_you_mean(command, page_names));
  }
  show_page(page_text(*found, pages));
  return kDone;
}

}  // namespace trainer::cli
