// Any bytes as YAML give a tree that survives writing and reading, or a ConfigError.
#include "engine/base/errors.h"
#include "engine/base/utf8.h"
#include "engine/config/document/problems.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace trainer;
  using namespace trainer::config;
  Problems problems;
  const std::string text(reinterpret_cast<const char*>(data), size);
  Node root;
  try {
    root = parse_yaml(text, "f.yaml", problems);
  } catch (const ConfigError&) {
    return 0;
  }
  // The writer supports whole documents, which are maps. Files that aren't UTF-8 are rejected earlier.
  if (root.members.empty() || !problems.empty() || !is_utf8(text)) return 0;
  Problems none;
  check(same(parse_yaml(to_yaml(root), "written", none), root), "the written tree reads back the same");
  check(none.empty(), "the written tree has no problems");
  return 0;
}
