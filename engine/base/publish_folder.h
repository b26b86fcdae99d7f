// Publishes a finished folder under its final name.
#pragma once

#include <filesystem>
#include <string>

namespace trainer {

// Note [File systems that rename no folders]
// A folder is written under a hidden name and renamed, so that nobody sees half of it. Some file systems don't rename
// folders: an overlay whose lower layer has the folder, and object stores, of which some rename the files in it, in any
// order, and lose those that they haven't uploaded yet. There, the files of a checkpoint are renamed one by one, its
// manifest last, and removed one by one, its manifest first: a folder without one isn't a checkpoint. Meanwhile the
// folder has a file `.unfinished`, so that what a crash leaves can be told from another program's files. If the folder
// replaces a checkpoint, a crash leaves files of both, which the checksums in the manifest show, and the checkpoint
// before it is used. A folder that no single file makes complete is renamed there too, or isn't published.

/// Renames the folder `from`, which nobody may see under two names or in two parts. As rename(); EOPNOTSUPP on file
/// systems that don't rename folders as a whole.
int rename_folder(const std::filesystem::path& from, const std::filesystem::path& to);

/// Publishes the folder `temp` with all its files as `final`, on the same file system; replaces an existing folder.
/// `last`: the file in it without which the folder doesn't count; "": there is none. Everything is on disk when this
/// returns. Errors: MachineError; `final` is then unchanged, if this file system renames folders.
void publish_folder(const std::filesystem::path& temp, const std::filesystem::path& final,
                    const std::string& last = "");

/// Removes `folder`, which doesn't count without the file `first`: an interruption leaves nothing that counts.
/// Errors: MachineError.
void remove_folder(const std::filesystem::path& folder, const std::string& first);

/// Ends what a crash has interrupted where files are moved or removed one by one: removes `folder` if it lacks `last`.
void settle_folder(const std::filesystem::path& folder, const std::string& last);

}  // namespace trainer
