// Manual pages.
#pragma once

#include <string>

namespace trainer::cli {

/// What a manual page is made of.
struct ManPage {
  std::string command;  // "checkpoint list"; "": trainer itself
  std::string summary;  // one line
  std::string help;     // what --help prints
  std::string extra;    // roff that follows
};

/// The page in the man macros of roff, which man, groff and mandoc render. The sections, options and examples are those
/// of the help: it is the only place that describes a command.
std::string man_page(const ManPage& page);

}  // namespace trainer::cli
