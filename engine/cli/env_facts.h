// The facts that `trainer env` collects. Nothing here starts a program, loads libtorch or throws: a fact that can't be
// read is absent.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace trainer::cli {

struct Fact {
  std::string name;              // "cores usable"
  nlohmann::ordered_json value;  // for --json: a text, a number (bytes for sizes), a list or an object
  std::string text;              // for the page; several lines for a document
};

struct FactSection {
  std::string title;  // "CPU"
  std::vector<Fact> facts;
  bool has_variables = false;  // the facts' names are those of variables: --json keeps them as they are
};

/// The program: version, folder and the libraries next to it.
FactSection program_facts();
/// System, kernel, C library, container.
FactSection system_facts(const std::filesystem::path& root = "/");
/// Model, cores, NUMA nodes and the vector instructions that matter for training.
FactSection cpu_facts(const std::filesystem::path& root = "/");
/// Memory, limits of this process, /dev/shm.
FactSection memory_facts(const std::filesystem::path& root = "/");
/// GPUs and their driver, and why ranks can't use them.
FactSection gpu_facts();
/// Names of the network interfaces and InfiniBand devices, and which of them ranks are told to use.
FactSection network_facts(const std::filesystem::path& root = "/");
/// mpirun and srun in PATH, and what started this process.
FactSection scheduler_facts();
/// The variables of kinds that matter for training, as public_value().
FactSection variable_facts();
/// The default configuration file, as public_document().
FactSection configuration_facts();
/// The caches with their sizes, and the free space of their file systems. Counting ends after some milliseconds: the
/// size is then "more than" what was counted.
FactSection cache_facts();

/// All of them, in this order.
std::vector<FactSection> all_facts();

}  // namespace trainer::cli
