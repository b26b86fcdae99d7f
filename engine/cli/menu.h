// Choices on a terminal, one of them marked.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace trainer::cli {

class Menu {
 public:
  /// `current` is marked at first. `color`: the mark is green.
  Menu(const std::vector<std::string>& choices, const std::string& current, bool color);

  void up() { at_ = (at_ + choices_.size() - 1) % choices_.size(); }
  void down() { at_ = (at_ + 1) % choices_.size(); }
  void first() { at_ = 0; }
  void last() { at_ = choices_.size() - 1; }
  /// Picks the choice whose text is `digit`; else the one with this number, from 1.
  void pick(std::size_t digit);

  const std::string& chosen() const { return choices_[at_]; }

  /// Draws the menu below the cursor, or over the last drawing. Draws only what fits into the window of `columns` by
  /// `rows`.
  void draw(std::ostream& out, std::size_t columns, std::size_t rows);
  /// Forgets the last drawing: the next one starts at the cursor.
  void forget() { drawn_ = 0; }
  /// Erases the drawing.
  void erase(std::ostream& out);

 private:
  std::string line(std::size_t index, std::size_t columns) const;

  const std::vector<std::string>& choices_;
  std::size_t at_ = 0;
  bool numbered_ = true;  // false when the choices are numbers themselves
  bool color_;
  std::size_t drawn_ = 0;  // lines
};

/// The choice that a typed answer means: its text in any case, or its number from 1; else the answer itself.
std::string choice_of(const std::string& answer, const std::vector<std::string>& choices);

}  // namespace trainer::cli
