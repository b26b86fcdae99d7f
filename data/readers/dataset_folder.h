// Folders that hold a whole dataset with its splits: as the Hugging Face Hub caches them, or as `save_to_disk` of the
// library datasets writes them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainer::data {

/// The files of a split ("train", "validation" or "test") of the dataset in `folder`; nullopt when the folder is not a
/// dataset's. The folder is one of
///   a repository of the Hub: the `configs` of its README.md name the files, otherwise its files' names tell the split,
///   such as data/train-00000-of-00002.parquet; also datasets--NAME of the Hub's cache, whose current snapshot counts;
///   what `DatasetDict.save_to_disk` wrote (dataset_dict.json); or `Dataset.save_to_disk`: one split (state.json).
/// Errors: InputError that names the splits or configurations there are, or the damaged file.
std::optional<std::vector<std::string>> dataset_files(const std::filesystem::path& folder, const std::string& split);

}  // namespace trainer::data
