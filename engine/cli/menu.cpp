#include "engine/cli/menu.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/utf8.h"
#include "engine/config/document/scalar.h"

namespace trainer::cli {
namespace {

/// The first `columns` characters of UTF-8 text.
std::string cut(const std::string& text, std::size_t columns) {
  std::size_t characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_inside_character(text[i]) && ++characters > columns) return text.substr(0, i);
  }
  return text;
}

}  // namespace

Menu::Menu(const std::vector<std::string>& choices, const std::string& current, bool color)
    : choices_(choices), color_(color) {
  const auto found = std::find(choices.begin(), choices.end(), current);
  if (found != choices.end()) at_ = static_cast<std::size_t>(found - choices.begin());
  numbered_ = !config::parse_int(choices.front());
}

void Menu::pick(std::size_t digit) {
  const auto named = std::find(choices_.begin(), choices_.end(), std::to_string(digit));
  if (named != choices_.end()) {
    at_ = static_cast<std::size_t>(named - choices_.begin());
  } else if (numbered_ && digit >= 1 && digit <= choices_.size()) {
    at_ = digit - 1;
  }
}

std::string Menu::line(std::size_t index, std::size_t columns) const {
  const std::string number = numbered_ ? fmt::format("{}  ", index + 1) : "";
  const std::string text = cut(fmt::format("{}{}", number, choices_[index]), columns > 5 ? columns - 5 : 1);
  if (index != at_) return "    " + text;
  return color_ ? fmt::format(" \033[32m➔\033[0m  {}", text) : " ➔  " + text;
}

void Menu::draw(std::ostream& out, std::size_t columns, std::size_t rows) {
  // Leave some lines for the question, and one for the position in the list.
  const std::size_t room = std::max<std::size_t>(rows > 5 ? rows - 5 : 1, 1);
  const std::size_t shown = std::min(room, choices_.size());
  const std::size_t first = at_ < shown ? 0 : std::min(at_ - shown / 2, choices_.size() - shown);
  const bool partly = shown < choices_.size();
  std::string text = drawn_ > 0 ? fmt::format("\033[{}A\r\033[J", drawn_) : "";
  for (std::size_t i = first; i < first + shown; ++i) text += line(i, columns) + "\n";
  if (partly) text += cut(fmt::format("    {} of {}", at_ + 1, choices_.size()), columns - 1) + "\n";
  drawn_ = shown + (partly ? 1 : 0);
  out << text << std::flush;
}

void Menu::erase(std::ostream& out) {
  if (drawn_ > 0) out << fmt::format("\033[{}A\r\033[J", drawn_) << std::flush;
  drawn_ = 0;
}

std::string choice_of(const std::string& answer, const std::vector<std::string>& choices) {
  for (const std::string& choice : choices) {
    if (config::lower(choice) == config::lower(answer)) return choice;
  }
  const auto number = config::parse_int(answer);
  const bool numbered = number && *number >= 1 && static_cast<std::size_t>(*number) <= choices.size();
  return numbered ? choices[static_cast<std::size_t>(*number) - 1] : answer;
}

}  // namespace trainer::cli
