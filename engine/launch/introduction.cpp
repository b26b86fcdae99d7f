#include "engine/launch/introduction.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/folder_lock.h"
#include "engine/base/gpu_faults.h"
#include "engine/base/gpu_library.h"
#include "engine/base/hex.h"
#include "engine/base/host_name.h"
#include "engine/base/mapped_file.h"
#include "engine/config/machine/device.h"
#include "engine/config/machine/started_rank.h"
#include "engine/config/plan/tree.h"

namespace trainer::launch {
namespace {

constexpr std::size_t kHead = 8;  // strings before the settings
constexpr double kMostAhead = 5;  // seconds; beyond that, the logs of two machines can't be compared

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Options whose values are specific to each machine.
bool may_differ(const std::string& path) {
  static const std::set<std::string> own{"machine_rank", "main_process_ip",      "num_cpu_threads_per_process",
                                         "gpu_ids",      "logging.metrics_port", "logging.metrics_address"};
  return own.contains(path);
}

const Setting* find(const Introduction& introduction, const std::string& path) {
  auto found = std::find_if(introduction.settings.begin(), introduction.settings.end(),
                            [&](const Setting& setting) { return setting.path == path; });
  return found == introduction.settings.end() ? nullptr : &*found;
}

std::string shown(const Setting* setting) {
  if (setting == nullptr) return "absent";
  return fmt::format("{} ({})", setting->value.empty() ? "''" : setting->value.substr(0, 100), setting->origin);
}

/// The `T` at `offset`; zeroes if the file ends before its end.
template <class T>
T read_at(std::string_view bytes, std::size_t offset) {
  T value{};
  if (offset <= bytes.size() && bytes.size() - offset >= sizeof(T))
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// The build id among the notes of a segment.
std::string build_id_in(std::string_view notes) {
  const auto padded = [](std::size_t size) { return (size + 3) / 4 * 4; };
  for (std::size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    const auto head = read_at<Elf64_Nhdr>(notes, at);
    const std::size_t content = at + sizeof(head) + padded(head.n_namesz);
    const std::size_t end = content + padded(head.n_descsz);
    if (end > notes.size()) break;
    if (head.n_type == NT_GNU_BUILD_ID) return hex(notes.substr(content, head.n_descsz));
    at = end;
  }
  return "";
}

}  // namespace

Introduction introduce(const config::Plan& plan, const std::string& worker_path) {
  Introduction introduction{.machine = static_cast<int>(plan.config.machine_rank),
                            .machines = static_cast<int>(plan.config.num_machines),
                            .name = host_name(),
                            .build = build_id(worker_path)};
  if (const auto started = config::started_rank()) introduction.job = started->step;
  if (config::trains_on_gpus(plan.config) && !has_other_accelerator())
    introduction.gpus = kinds_text(config::gpus_of_ranks(plan.config, gpus_here(), cuda_visible_devices()));
  for (const auto& [path, value] : config::values_without_paths(plan.config))
    introduction.settings.push_back({path, value, plan.origins.contains(path) ? plan.origins.at(path) : ""});
  return introduction;
}

LinkMessage to_message(const Introduction& introduction) {
  LinkMessage message{.op = LinkOp::kIntroduce, .code = introduction.machine, .number = introduction.machines};
  message.strings = {introduction.name,
                     introduction.build,
                     introduction.job,
                     fmt::format("{:.3f}", now()),
                     std::to_string(introduction.epoch),
                     to_text(introduction.votes),
                     std::to_string(introduction.candidates_below),
                     introduction.gpus};
  for (const Setting& setting : introduction.settings)
    message.strings.insert(message.strings.end(), {setting.path, setting.value, setting.origin});
  return message;
}

Introduction introduction_of(const LinkMessage& message) {
  const std::vector<std::string>& strings = message.strings;
  if (message.op != LinkOp::kIntroduce || strings.size() < kHead || (strings.size() - kHead) % 3 != 0 ||
      message.number < 1 || message.number > INT32_MAX)
    throw PeerError("malformed message: no introduction");
  Introduction introduction{.machine = message.code,
                            .machines = static_cast<int>(message.number),
                            .name = strings[0],
                            .build = strings[1],
                            .job = strings[2],
                            .gpus = strings[7],
                            .epoch = std::strtoll(strings[4].c_str(), nullptr, 10),
                            .votes = vote_record_from(strings[5]),
                            .candidates_below = static_cast<int>(std::strtol(strings[6].c_str(), nullptr, 10)),
                            .ahead = std::strtod(strings[3].c_str(), nullptr) - now()};
  if (introduction.epoch < 0 || introduction.epoch >= kMostEpochs)
    throw PeerError("malformed message: leader epoch {}", introduction.epoch);
  for (std::size_t i = kHead; i < strings.size(); i += 3)
    introduction.settings.push_back({strings[i], strings[i + 1], strings[i + 2]});
  return introduction;
}

std::vector<std::string> differences(const Introduction& leader, const Introduction& follower) {
  std::vector<std::string> lines;
  const auto differs = [&](const std::string& what, const std::string& here, const std::string& there) {
    lines.push_back(fmt::format("{}: {} on machine 0, {} on machine {}", what, here, there, follower.machine));
  };
  if (leader.build != follower.build)
    differs("the build of trainer-worker", leader.build.substr(0, 12), follower.build.substr(0, 12));
  for (const Setting& here : leader.settings) {
    const Setting* const there = find(follower, here.path);
    if (!may_differ(here.path) && (there == nullptr || there->value != here.value))
      differs(here.path, shown(&here), shown(there));
  }
  for (const Setting& there : follower.settings)
    if (!may_differ(there.path) && find(leader, there.path) == nullptr)
      differs(there.path, shown(nullptr), shown(&there));
  return lines;
}

std::string about_clock(const Introduction& follower, const std::string& name) {
  if (!(std::abs(follower.ahead) > kMostAhead)) return "";
  return fmt::format("the clock of {} is {:.0f} s {} machine 0's: times in their logs cannot be compared", name,
                     std::abs(follower.ahead), follower.ahead > 0 ? "ahead of" : "behind");
}

std::string about_gpus(const Introduction& leader, const Introduction& follower, const std::string& name) {
  if (leader.gpus == follower.gpus || leader.gpus.empty() || follower.gpus.empty()) return "";
  return fmt::format(
      "machines use different GPUs, {} here and {} on {}: the slowest decides the speed, and the smallest "
      "how much fits",
      leader.gpus, follower.gpus, name);
}

std::string build_id(const std::string& program) {
  const MappedFile file(program);
  const std::string_view bytes = file.bytes();
  const auto head = read_at<Elf64_Ehdr>(bytes, 0);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64) return "";
  for (std::size_t i = 0; i < head.e_phnum; ++i) {
    const auto segment = read_at<Elf64_Phdr>(bytes, head.e_phoff + i * sizeof(Elf64_Phdr));
    if (segment.p_type != PT_NOTE || segment.p_offset > bytes.size()) continue;
    if (std::string id = build_id_in(bytes.substr(segment.p_offset, segment.p_filesz)); !id.empty()) return id;
  }
  return "";
}

}  // namespace trainer::launch
