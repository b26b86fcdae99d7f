#include "engine/cli/man_page.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace trainer::cli {
namespace {

// Note [Help as a page]
// A help has a description, a line "Usage: …", and then headings ("Options:") with lines below them. A line that is
// indented by two columns begins an entry: its names, two or more blanks, and what it means, which may begin on the
// next line instead. Lines that are indented more continue it. Below "Examples:" lines stay as they are.

constexpr size_t kEntryIndent = 2;

/// Characters that roff would change or take for a request. A hyphen in an option must stay one, to be copied.
std::string escaped(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      switch (text[at++]) {
        case '\\':
          out += "\\e";
          break;
        case '-':
          out += "\\-";
          break;
        case '\'':
          out += "\\(aq";
          break;
        case '`':
          out += "\\(ga";
          break;
        case '^':
          out += "\\(ha";
          break;
        case '~':
          out += "\\(ti";
          break;
        default:
          out += static_cast<char>(byte);
      }
      continue;
    }
    const size_t size = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    uint32_t code = byte & (0xFF >> (size + 1));
    for (size_t i = 1; i < size && at + i < text.size(); ++i)
      code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3F);
    out += fmt::format("\\[u{:04X}]", code);
    at += size;
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

size_t indent_of(const std::string& line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

/// "Options:", and "Examples:" in the middle of a footer.
bool is_heading(const std::string& line) {
  return !line.empty() && line.front() != ' ' && line.back() == ':' && line.size() < 60;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

/// The section that a heading of the help becomes.
std::string section_of(const std::string& heading) {
  const std::string name = heading.substr(0, heading.size() - 1);
  if (name == "Positionals") return "ARGUMENTS";
  if (name == "Subcommands") return "COMMANDS";
  return upper(name);
}

/// Options and commands in bold, what stands for their values in italics.
std::string styled_names(const std::string& text) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of(" ,", begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const bool bold = word.starts_with('-') || std::islower(static_cast<unsigned char>(word[0])) != 0;
    if (!word.empty()) out += fmt::format("\\f{}{}\\fR", bold ? "B" : "I", escaped(word));
    if (end < text.size()) out += text[end];
    begin = end + 1;
  }
  return out;
}

class Body {
 public:
  void add(const std::string& line) {
    if (is_heading(line)) {
      close();
      text_ += fmt::format(".SH {}\n", escaped(section_of(line)));
      headed_ = after_heading_ = true;
      examples_ = line.starts_with("Examples");
      if (examples_) text_ += ".nf\n";
    } else if (examples_ && indent_of(line) > 0) {
      text_ += escaped(line.substr(std::min(kEntryIndent, indent_of(line)))) + "\n";
    } else if (line.empty()) {
      close();
    } else {
      add_to_blocks(line);
    }
  }

  std::string finish() {
    close();
    return text_;
  }

 private:
  void add_to_blocks(const std::string& line) {
    const size_t indent = indent_of(line);
    if (examples_) close();
    if (indent > kEntryIndent && open_) return continue_with(line.substr(indent));
    const size_t gap = line.find("  ", indent);
    const bool lists = indent == kEntryIndent && (gap != std::string::npos || line[indent] == '-');
    if (!lists && open_ && !entry_) return continue_with(line.substr(indent));
    close();
    if (lists && !headed_) text_ += line[indent] == '-' ? ".SH OPTIONS\n" : ".SH COMMANDS\n";
    headed_ = headed_ || lists;
    open_ = true;
    entry_ = lists;
    if (!lists) {
      text_ += (after_heading_ ? "" : ".PP\n") + escaped(line.substr(indent));
      after_heading_ = false;
      return;
    }
    after_heading_ = false;
    size_t end = std::min(gap, line.size());
    size_t rest = gap == std::string::npos ? line.size() : line.find_first_not_of(' ', gap);
    if (const size_t colon = line.find(": ", indent); colon < end)
      end = colon, rest = colon + 2;  // "--steps N: updates"
    text_ += ".TP\n" + styled_names(line.substr(indent, end - indent));
    if (rest < line.size()) text_ += "\n" + escaped(line.substr(rest));
    begun_ = rest < line.size();
  }

  void continue_with(const std::string& words) {
    text_ += entry_ && !begun_ ? "\n" : " ";
    begun_ = true;
    text_ += text_.ends_with('\n') ? escaped(words) : escaped_inside(words);
  }

  static std::string escaped_inside(const std::string& words) {
    const std::string out = escaped(words);
    return out.starts_with("\\&") ? out.substr(2) : out;
  }

  /// Ends the paragraph, entry or example.
  void close() {
    if (examples_) text_ += ".fi\n";
    if (open_) text_ += "\n";
    open_ = entry_ = examples_ = false;
    begun_ = true;
  }

  std::string text_;
  bool headed_ = false;                // a heading was seen, or made
  bool after_heading_ = true;          // nothing follows it yet
  bool open_ = false, entry_ = false;  // a paragraph, or an entry
  bool begun_ = true;                  // the entry's meaning
  bool examples_ = false;
};

std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

/// `usage`: "trainer merge [OPTIONS] ADAPTER... FOLDER".
std::string synopsis_of(const std::string& usage, const std::string& command) {
  const std::string name = command.empty() ? "trainer" : "trainer " + command;
  const std::string rest = usage.starts_with(name) ? usage.substr(name.size()) : "";
  return fmt::format(".B {}\n{}\n", escaped(name), rest.empty() ? "" : escaped(rest.substr(1)));
}

}  // namespace

std::string man_page(const ManPage& page) {
  const std::string name = page.command.empty() ? "trainer" : "trainer-" + with_dashes(page.command);
  std::string description, synopsis = synopsis_of("", page.command);
  Body rest;
  bool usage_seen = false;
  for (const std::string& line : lines_of(page.help)) {
    if (!usage_seen && line.starts_with("Usage: ")) {
      synopsis = synopsis_of(line.substr(7), page.command);
      usage_seen = true;
    } else if (usage_seen) {
      rest.add(line);
    } else if (!line.empty()) {
      description += (description.empty() ? "" : " ") + line;
    }
  }
  return fmt::format(".TH {} 1 \"{}\" \"trainer {}\" \"trainer\"\n.nh\n.ad l\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}",
                     upper(name), TRAINER_BUILD_DATE, TRAINER_VERSION, escaped(name), escaped(page.summary), synopsis) +
         (description.empty() ? "" : ".SH DESCRIPTION\n" + escaped(description) + "\n") + rest.finish() + page.extra;
}

}  // namespace trainer::cli
