// The machines of a generation agree on it before its ranks start: Note [Votes].
#pragma once

#include "engine/launch/leadership.h"
#include "engine/launch/machines.h"
#include "engine/launch/signals.h"
#include "engine/launch/votes.h"

namespace trainer::launch {

/// The leader, `machine`: proposes a generation of all connected machines, under an epoch higher than any that one of
/// them has promised, which becomes that of `leads`. Returns it when all have voted for it. Errors: PeerError when they
/// include no majority; LostBeforeStart; StoppedBeforeStart; MachineError when the vote can't be written.
Membership propose(Votes& votes, int machine, Leadership& leads, Machines& machines, SignalQueue& signals);
/// A follower: votes for the generation that the leader proposes. Errors: as above.
Membership vote(Votes& votes, int machine, Machines& machines, SignalQueue& signals);

/// On all of its machines, once the leader has the newest checkpoint that any of them holds: the generation is agreed.
/// Errors: as above.
void agree(Votes& votes, const Membership& next, bool is_leader, Machines& machines, SignalQueue& signals);

}  // namespace trainer::launch
