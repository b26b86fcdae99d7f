// Node to YAML text, quoted as by PyYAML, which Accelerate uses.
#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "engine/config/document/document.h"
#include "engine/config/document/scalar.h"

namespace trainer::config {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

/// Text that YAML 1.1 would read as a number: digits and the characters allowed between them.
bool looks_like_number(const std::string& text) {
  if (text == "." || text.find_first_of("0123456789") == std::string::npos) {
    return text == ".inf" || text == ".nan" || text == "-.inf" || text == "+.inf";
  }
  if (text.starts_with("0x") || text.starts_with("0b")) return true;
  if (std::count(text.begin(), text.end(), '.') > 1) return false;  // an address
  return text.find_first_not_of("0123456789+-.eE_:") == std::string::npos;
}

bool is_reserved(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  static const std::vector<std::string> words{"y",    "n",     "yes",  "no", "on", "off",
                                              "true", "false", "null", "~",  "=",  "<<"};
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// Text that needs no quotes.
bool is_plain(const std::string& text) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ' || text.back() == ':') return false;
  if (std::any_of(text.begin(), text.end(), is_control)) return false;
  const bool lone = text.size() == 1 || text[1] == ' ';  // "- a" is a list, "-a" a text
  if (lone && std::string("-?:").find(text.front()) != std::string::npos) return false;
  if (std::string("?:,[]{}#&*!|>'\"%@`").find(text.front()) != std::string::npos) return false;
  if (text.find(": ") != std::string::npos || text.find(" #") != std::string::npos) return false;
  if (text.starts_with("\xEF\xBB\xBF")) return false;  // a byte-order mark, skipped at the start of a document
  return text != "---" && text != "...";
}

std::string double_quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_control(c)) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string single_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

std::string key_text(const std::string& key) {
  const bool plain = is_plain(key) && !looks_like_number(key) && !is_reserved(key);
  return plain ? key : std::any_of(key.begin(), key.end(), is_control) ? double_quoted(key) : single_quoted(key);
}

/// `node.quoted` marks text, which gets quotes if YAML would read it as something else. Numbers and booleans are not
/// marked and stay bare.
std::string scalar_text(const Node& node) {
  if (std::any_of(node.text.begin(), node.text.end(), is_control)) return double_quoted(node.text);
  const bool mistaken = node.quoted && (looks_like_number(node.text) || is_reserved(node.text));
  return mistaken || !is_plain(node.text) ? single_quoted(node.text) : node.text;
}

class Writer {
 public:
  std::string out;

  void write_members(const Node& map, const std::string& indent) {
    for (const Member& member : map.members) {
      out += indent + key_text(member.key) + ":";
      write_value(member.value, indent, indent);
    }
  }

 private:
  /// Writes what follows "key:" or "-". A list under a key is not indented further; one inside a list is.
  void write_value(const Node& node, const std::string& indent, const std::string& list_indent) {
    const std::string comment = node.comment.empty() ? "" : "  # " + node.comment;
    switch (node.kind) {
      case Node::Kind::kNull:
        out += " null" + comment + "\n";
        break;
      case Node::Kind::kScalar:
        out += " " + scalar_text(node) + comment + "\n";
        break;
      case Node::Kind::kList:
        out += (node.items.empty() ? " []" : "") + comment + "\n";
        for (const Node& item : node.items) {
          out += list_indent + "-";
          write_value(item, list_indent + "  ", list_indent + "  ");
        }
        break;
      case Node::Kind::kMap:
        out += (node.members.empty() ? " {}" : "") + comment + "\n";
        write_members(node, indent + "  ");
        break;
    }
  }
};

}  // namespace

std::string to_yaml(const Node& node) {
  Writer writer;
  writer.write_members(node, "");
  return writer.out;
}

}  // namespace trainer::config
