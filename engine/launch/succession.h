// Where the leader of a run listens, as the output folder says.
//
// Note [Succession]
// In an elastic run whose machines share the output folder, the leader may be lost. Every leader holds the folder's
// lock, which the kernel or the file server releases when its launcher has died, and only then; so a leader that is
// alive, even if the others can't reach it, is never replaced, and there are never two. A machine that has taken part
// in an attempt and has lost its leader looks for it at the known address, and tries to lock the folder. Whoever gets
// the lock leads: it adds its own address to the lock file (LeaderPlace), where the others find it, and gathers them
// for the next attempt, which continues from the newest checkpoint. Machine 0, started again, finds the folder locked
// and joins as a follower. A former leader whose lock a file server has dropped while it was paused finds another name
// in the lock file (FolderOwner), writes nothing and exits.
//
// Machines that share no folder vote (Note [Votes]). A machine that has lost its leader looks for one where the
// machines of the last generation were reached, and asks for votes itself: it listens, too. The others stay with the
// machine of the lowest number that they reach; once a majority is there, it leads, and the generation continues from
// the newest checkpoint of any of its machines. A leader without a majority steps down after Patience::silence, and
// does the same. Until that time has passed, nobody asks for votes or gives one, unless the leader's launcher is known
// to have died: its ranks are stopped before others start. A leader elsewhere than at the appointed address tells
// machine 0 where it is.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace trainer::launch {

struct LeaderPlace {
  int machine = 0;
  std::string host;
  int port = 0;
};

/// As a line of the lock file.
std::string to_line(const LeaderPlace& place);
/// What the lock file of `folder` says, whether or not that leader is alive; null when it names no place.
std::optional<LeaderPlace> leader_of(const std::filesystem::path& folder);

}  // namespace trainer::launch
