#include "engine/config/machine/hub_folder.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::config {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMostOfRef = 200;  // bytes

std::string folder_name(const std::string& name, HubKind kind) {
  std::string folder = (kind == HubKind::kModel ? "models--" : "datasets--") + name;
  if (const size_t slash = folder.find('/'); slash != std::string::npos) folder.replace(slash, 1, "--");
  return folder;
}

std::string first_line(const fs::path& file) {
  try {
    const std::string text = read_file(file, kMostOfRef);
    return text.substr(0, text.find_first_of("\r\n"));
  } catch (const Error&) {
    return "";
  }
}

/// `path` with the home folder in place of a leading ~, as huggingface_hub reads its variables.
fs::path under_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const char* const home = std::getenv("HOME");
  return fs::path(home != nullptr ? home : "/") / path.substr(std::min<std::size_t>(path.size(), 2));
}

}  // namespace

bool is_hub_name(const std::string& text) {
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == '/';
  };
  return !text.empty() && text.front() != '.' && text.front() != '/' && text.back() != '/' &&
         std::count(text.begin(), text.end(), '/') <= 1 && text.find("..") == std::string::npos &&
         std::all_of(text.begin(), text.end(), allowed);
}

fs::path hub_cache() {
  for (const auto& [variable, below] : {std::pair("HF_HUB_CACHE", ""), std::pair("HUGGINGFACE_HUB_CACHE", ""),
                                        std::pair("HF_HOME", "hub"), std::pair("XDG_CACHE_HOME", "huggingface/hub")})
    if (const char* const value = std::getenv(variable); value != nullptr && *value != '\0')
      return under_home(value) / below;
  return under_home("~/.cache/huggingface/hub");
}

std::string hub_folder(const std::string& name, HubKind kind) {
  if (!is_hub_name(name)) return "";
  const fs::path model = hub_cache() / folder_name(name, kind);
  const std::string commit = first_line(model / "refs" / "main");
  std::error_code ignored;
  if (!commit.empty() && commit.find('/') == std::string::npos) {
    const fs::path snapshot = model / "snapshots" / commit;
    if (fs::is_directory(snapshot, ignored)) return snapshot.string();
  }
  return "";
}

std::string hub_hint(const std::string& path, HubKind kind) {
  // Relative paths were made absolute: with an organization in the name, the parent folder does not exist either.
  const fs::path folder = fs::path(path).lexically_normal(), above = folder.parent_path();
  std::error_code ignored;
  const std::string organization = above.empty() || fs::exists(above, ignored) ? "" : above.filename().string() + "/";
  return fmt::format(
      "If it is a name on the Hugging Face Hub: {} are not downloaded automatically; `hf download {}{}{}` on a "
      "machine with network access puts it into {}.",
      kind == HubKind::kModel ? "models" : "datasets", kind == HubKind::kModel ? "" : "--repo-type dataset ",
      organization, folder.filename().string(), hub_cache().string());
}

}  // namespace trainer::config
